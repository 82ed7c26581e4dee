//! Recording of decisions, one event for each wake-up.

use std::{path::Path, process, time::Duration};

use libbpf_rs::{ErrorKind, RingBufferBuilder};

use super::maps::{Maps, Setting};
use crate::{Error, WakeEvent};

/// A running recording. Dropping it ends the recording.
pub struct Recording<'a> {
    maps: &'a Maps,
    /// Number of events lost before.
    lost: u64,
}

impl<'a> Recording<'a> {
    pub(super) fn start(maps: &'a Maps) -> Result<Self, Error> {
        let other = maps.get(Setting::Recorder)?;
        if other != 0 && Path::new(&format!("/proc/{other}")).exists() {
            let line = format!("process {other} records already; there can be one only");
            return Err(Error::new(line));
        }
        // Discards events left in the buffer by a killed recorder.
        maps.set(Setting::Recorder, 0)?;
        read(maps, Duration::ZERO, |_| ())?;
        let recording = Recording { maps, lost: maps.counters()?.get("lost") };
        maps.set(Setting::Recorder, process::id())?;
        Ok(recording)
    }

    /// Passes on the events since the last call, in order of decision, waiting for up to `most`.
    pub fn pass_on(&self, most: Duration, each: impl FnMut(WakeEvent)) -> Result<(), Error> {
        read(self.maps, most, each)
    }

    /// Ends the recording, passes on the remaining events, and returns the number of events lost
    /// for lack of room in the buffer.
    pub fn end(self, each: impl FnMut(WakeEvent)) -> Result<u64, Error> {
        self.maps.set(Setting::Recorder, 0)?;
        read(self.maps, Duration::ZERO, each)?;
        Ok(self.maps.counters()?.get("lost") - self.lost)
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        // If the map cannot be reached, the scheduler is gone with its recording.
        let _ = self.maps.set(Setting::Recorder, 0);
    }
}

fn read(maps: &Maps, most: Duration, mut each: impl FnMut(WakeEvent)) -> Result<(), Error> {
    let unreadable = |error| Error::new(format!("cannot read the scheduler's events: {error}"));
    let mut builder = RingBufferBuilder::new();
    let pass_on = |bytes: &[u8]| {
        WakeEvent::read(bytes).into_iter().for_each(&mut each);
        0
    };
    builder.add(&maps.events, pass_on).map_err(unreadable)?;
    let buffer = builder.build().map_err(unreadable)?;
    match if most.is_zero() { buffer.consume() } else { buffer.poll(most) } {
        Err(error) if error.kind() != ErrorKind::Interrupted => Err(unreadable(error)),
        _ => Ok(()),
    }
}
