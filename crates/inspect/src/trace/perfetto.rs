//! Perfetto's format: packets of protobuf messages, by their published definitions (perfetto.dev,
//! "Trace Packet Reference"; protobuf.dev, "Encoding").

use std::io::{self, Write};

use crate::numbers::Numbers;
use crate::protobuf::Message;

/// Numbers of fields, as `protos/perfetto/trace` has them.
mod field {
    pub(super) const TRACE_PACKET: u32 = 1;

    pub(super) const PACKET_TIMESTAMP: u32 = 8;
    pub(super) const PACKET_SEQUENCE: u32 = 10;
    pub(super) const PACKET_TRACK_EVENT: u32 = 11;
    pub(super) const PACKET_INTERNED: u32 = 12;
    pub(super) const PACKET_FLAGS: u32 = 13;
    pub(super) const PACKET_TRACK: u32 = 60;

    pub(super) const TRACK_UUID: u32 = 1;
    pub(super) const TRACK_NAME: u32 = 2;
    pub(super) const TRACK_PROCESS: u32 = 3;
    pub(super) const TRACK_THREAD: u32 = 4;
    pub(super) const TRACK_PARENT: u32 = 5;

    pub(super) const PROCESS_PID: u32 = 1;
    pub(super) const PROCESS_NAME: u32 = 6;
    pub(super) const THREAD_PID: u32 = 1;
    pub(super) const THREAD_TID: u32 = 2;
    pub(super) const THREAD_NAME: u32 = 5;

    pub(super) const EVENT_ANNOTATION: u32 = 4;
    pub(super) const EVENT_KIND: u32 = 9;
    pub(super) const EVENT_NAME_IID: u32 = 10;
    pub(super) const EVENT_TRACK: u32 = 11;
    pub(super) const EVENT_FLOW: u32 = 47;
    pub(super) const EVENT_FLOW_END: u32 = 48;

    pub(super) const INTERNED_EVENT_NAME: u32 = 2;
    pub(super) const NAME_IID: u32 = 1;
    pub(super) const NAME: u32 = 2;

    pub(super) const ANNOTATION_TEXT: u32 = 6;
    pub(super) const ANNOTATION_ADDRESS: u32 = 7;
    pub(super) const ANNOTATION_NAME: u32 = 10;
}

/// The one sequence of packets.
const SEQUENCE: u64 = 1;
/// Flags of the first packet, and of those that use interned names.
const CLEARED: u64 = 1;
const NEEDS_NAMES: u64 = 2;

/// A row of the picture, for the events on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Track(u64);

/// A kind of event, by its number in the definition of `TrackEvent`.
#[derive(Clone, Copy)]
enum EventKind {
    Begin = 1,
    End = 2,
    Instant = 3,
}

/// A note at an event.
#[derive(Clone, Copy)]
pub(super) enum Note<'t> {
    Text(&'static str, &'t str),
    Address(&'static str, u64),
}

/// The arrow from the cause of an event to the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow(u64);

/// Writes a trace.
pub(super) struct TraceWriter<W> {
    out: W,
    /// The names of events; 0 is none.
    names: Numbers<String>,
    tracks: u64,
    flows: u64,
    is_begun: bool,
}

impl<W: Write> TraceWriter<W> {
    pub(super) fn new(out: W) -> Self {
        TraceWriter { out, names: Numbers::new(1), tracks: 0, flows: 0, is_begun: false }
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Adds the track of a process.
    pub(super) fn process(&mut self, pid: u32, name: &str) -> io::Result<Track> {
        self.track(|track| {
            track.message(field::TRACK_PROCESS, |process| {
                process.number(field::PROCESS_PID, u64::from(pid));
                process.bytes(field::PROCESS_NAME, name.as_bytes());
            });
        })
    }

    /// Adds the track of a kernel thread.
    pub(super) fn thread(&mut self, pid: u32, tid: u32, name: &str) -> io::Result<Track> {
        self.track(|track| {
            track.message(field::TRACK_THREAD, |thread| {
                thread.number(field::THREAD_PID, u64::from(pid));
                thread.number(field::THREAD_TID, u64::from(tid));
                thread.bytes(field::THREAD_NAME, name.as_bytes());
            });
        })
    }

    /// Adds a track below another one.
    pub(super) fn child(&mut self, parent: Track, name: &str) -> io::Result<Track> {
        self.track(|track| {
            track.number(field::TRACK_PARENT, parent.0);
            track.bytes(field::TRACK_NAME, name.as_bytes());
        })
    }

    fn track(&mut self, fill: impl FnOnce(&mut Message)) -> io::Result<Track> {
        self.tracks += 1;
        let uuid = self.tracks;
        self.packet(|packet| {
            packet.message(field::PACKET_TRACK, |track| {
                track.number(field::TRACK_UUID, uuid);
                fill(track);
            });
        })?;
        Ok(Track(uuid))
    }

    /// Begins a slice; the arrow ends there, if there is one.
    pub(super) fn begin(
        &mut self,
        ns: u64,
        track: Track,
        name: &str,
        from: Option<Flow>,
        notes: &[Note<'_>],
    ) -> io::Result<()> {
        self.event(ns, track, EventKind::Begin, Some(name), notes, |event| {
            if let Some(Flow(id)) = from {
                event.fixed(field::EVENT_FLOW_END, id);
            }
        })
    }

    /// Ends the slice that was begun last.
    pub(super) fn end(&mut self, ns: u64, track: Track, notes: &[Note<'_>]) -> io::Result<()> {
        self.event(ns, track, EventKind::End, None, notes, |_| {})
    }

    /// Adds an event without a duration.
    pub(super) fn instant(
        &mut self,
        ns: u64,
        track: Track,
        name: &str,
        notes: &[Note<'_>],
    ) -> io::Result<()> {
        self.event(ns, track, EventKind::Instant, Some(name), notes, |_| {})
    }

    /// Adds an event without a duration, from which an arrow begins.
    pub(super) fn cause(&mut self, ns: u64, track: Track, name: &str) -> io::Result<Flow> {
        self.flows += 1;
        let flow = self.flows;
        self.event(ns, track, EventKind::Instant, Some(name), &[], |event| {
            event.fixed(field::EVENT_FLOW, flow);
        })?;
        Ok(Flow(flow))
    }

    fn event(
        &mut self,
        ns: u64,
        track: Track,
        kind: EventKind,
        name: Option<&str>,
        notes: &[Note<'_>],
        fill: impl FnOnce(&mut Message),
    ) -> io::Result<()> {
        let (iid, is_new) = match name {
            Some(name) => {
                let (iid, is_new) = self.names.of(name);
                (Some(iid), is_new)
            }
            None => (None, false),
        };
        self.packet(|packet| {
            packet.number(field::PACKET_TIMESTAMP, ns);
            if let (true, Some(iid), Some(name)) = (is_new, iid, name) {
                packet.message(field::PACKET_INTERNED, |interned| {
                    interned.message(field::INTERNED_EVENT_NAME, |entry| {
                        entry.number(field::NAME_IID, iid);
                        entry.bytes(field::NAME, name.as_bytes());
                    });
                });
            }
            packet.message(field::PACKET_TRACK_EVENT, |event| {
                event.number(field::EVENT_KIND, kind as u64);
                event.number(field::EVENT_TRACK, track.0);
                if let Some(iid) = iid {
                    event.number(field::EVENT_NAME_IID, iid);
                }
                for note in notes {
                    event.message(field::EVENT_ANNOTATION, |annotation| match *note {
                        Note::Text(name, text) => {
                            annotation.bytes(field::ANNOTATION_NAME, name.as_bytes());
                            annotation.bytes(field::ANNOTATION_TEXT, text.as_bytes());
                        }
                        Note::Address(name, address) => {
                            annotation.bytes(field::ANNOTATION_NAME, name.as_bytes());
                            annotation.number(field::ANNOTATION_ADDRESS, address);
                        }
                    });
                }
                fill(event);
            });
        })
    }

    fn packet(&mut self, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        let flags = if self.is_begun { NEEDS_NAMES } else { CLEARED | NEEDS_NAMES };
        self.is_begun = true;
        let mut trace = Message::default();
        trace.message(field::TRACE_PACKET, |packet| {
            packet.number(field::PACKET_SEQUENCE, SEQUENCE);
            packet.number(field::PACKET_FLAGS, flags);
            fill(packet);
        });
        self.out.write_all(trace.encoded())
    }
}
