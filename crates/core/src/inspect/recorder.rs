//! The recorder of a worker, as a reader sees it.

use std::rc::Rc;

use super::memory::{Memory, Span, Struct};
use super::reader::Reader;
use super::row::Place;
use super::table::Field;

/// Most events of a ring.
const MOST_EVENTS: u64 = 1 << 20;

/// The recorder of a worker's events, as it was at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecorderRow {
    /// Number of events recorded so far.
    pub recorded: u64,
    /// The address of the ring, if there is one.
    pub ring: Option<u64>,
    /// Number of events that a ring holds.
    pub ring_events: u64,
    /// The process id of the reader; 0: none.
    pub reader: u64,
    /// True if there was no memory for a ring.
    pub is_refused: bool,
    /// The address of the word in which a reader enters its process id.
    pub reader_at: u64,
    /// The address of the word in which it gives credit.
    pub credit_end_at: u64,
}

impl<M: Memory> Reader<M> {
    /// Returns the recorder of the worker at this address; `None` if its memory cannot be read.
    pub fn recorder(&self, worker: u64) -> Option<RecorderRow> {
        let layout = &self.table().worker.recorder;
        let fields =
            [layout.recorded, layout.credit_end, layout.ring, layout.reader, layout.is_refused];
        // One system call for all: they lie side by side.
        let first = fields.iter().map(|field| field.offset).min()?;
        let end = fields.iter().map(|field| field.offset.saturating_add(field.bytes)).max()?;
        let start = worker.checked_add(u64::from(first))?;
        let memory = Struct::read(self.memory(), start, u64::from(end - first))?;
        let get = |field: Field| memory.get(Field { offset: field.offset - first, ..field });
        let at = |field: Field| worker.checked_add(u64::from(field.offset));
        let ring = get(layout.ring);
        Some(RecorderRow {
            recorded: get(layout.recorded),
            ring: (ring != 0).then_some(ring),
            ring_events: layout.ring_events.clamp(1, MOST_EVENTS),
            reader: get(layout.reader),
            is_refused: get(layout.is_refused) != 0,
            reader_at: at(layout.reader)?,
            credit_end_at: at(layout.credit_end)?,
        })
    }

    /// Reads the two words of each of `count` events of a ring, from the event with number `first`
    /// on; at most as many as it holds.
    pub fn events(&self, row: &RecorderRow, first: u64, count: u64) -> Option<Vec<[u64; 2]>> {
        const EVENT: u64 = 16;
        let (ring, holds) = (row.ring?, row.ring_events);
        let count = count.min(holds);
        let place = first % holds;
        // Up to the end of the ring, and from its beginning on.
        let before = count.min(holds - place);
        let span = |place: u64, count: u64| Span {
            start: ring.wrapping_add(place * EVENT),
            len: (count * EVENT) as usize,
        };
        let spans = [span(place, before), span(0, count - before)];
        let mut bytes = vec![0; (count * EVENT) as usize];
        if self.memory().read_each(&spans, &mut bytes) < spans.len() {
            return None;
        }
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let event = |event: &[u8]| [word(&event[..8]), word(&event[8..])];
        Some(bytes.chunks_exact(EVENT as usize).map(event).collect())
    }

    /// Returns the place in a source file that the process keeps at this address.
    pub fn place_at(&self, at: u64) -> Option<Place> {
        self.place(at)
    }

    /// Returns the name of a kind of waits.
    pub fn wait_kind(&self, kind: u8) -> Option<Rc<str>> {
        self.wait_of(u64::from(kind) << 56).map(|wait| wait.kind)
    }
}
