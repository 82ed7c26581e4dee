//! A file of wake-ups for the simulator.

use std::io::{self, BufWriter, Write};

use daiko_lab::experiments::follow_sim::trace::{Wake, Writer};
use daiko_scx::WakeEvent;

/// A file of wake-ups under construction. Without its last line it counts as truncated.
pub(super) struct Trace<File: Write> {
    writer: Writer<BufWriter<File>>,
    /// Times of the first and the last wake-up. The trace counts from the first and never goes
    /// back.
    first_and_last: Option<(u64, u64)>,
    wakes: u64,
    /// The first failure. Nothing is written after it.
    state: io::Result<()>,
}

impl<File: Write> Trace<File> {
    /// Begins a trace of a machine with `cpus` CPUs.
    pub(super) fn begin(file: File, cpus: u16) -> io::Result<Self> {
        let writer = Writer::new(BufWriter::new(file), cpus)?;
        Ok(Trace { writer, first_and_last: None, wakes: 0, state: Ok(()) })
    }

    pub(super) fn write(&mut self, event: WakeEvent) {
        let WakeEvent { time_ns, task, waker, previous, idle, chosen } = event;
        let (first, last) = self.first_and_last.unwrap_or((time_ns, time_ns));
        // Two CPUs may reserve their places in the buffer in one order and read the time in the
        // other.
        let now = time_ns.max(last);
        self.first_and_last = Some((first, now));
        if self.state.is_ok() {
            let wake = Wake { at_ns: now - first, task, waker, previous, idle, chosen };
            self.state = self.writer.wake(&wake);
            self.wakes += 1;
        }
    }

    /// Returns true if writing has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.state.is_err()
    }

    /// Ends the file and returns the number of its wake-ups.
    pub(super) fn end(self, lost: u64) -> io::Result<u64> {
        self.state?;
        self.writer.finish(lost)?;
        Ok(self.wakes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_ns: u64, task: u32) -> WakeEvent {
        WakeEvent { time_ns, task, waker: 0, previous: 1, idle: 0x1b, chosen: 1 }
    }

    #[test]
    fn times_begin_at_the_first_wake_up_and_never_go_back() {
        let mut file = Vec::new();
        let mut trace = Trace::begin(&mut file, 5).unwrap();
        for (time, task) in [(1000, 7), (1500, 8), (1400, 9)] {
            trace.write(event(time, task));
        }
        assert_eq!(trace.end(2).unwrap(), 3);
        let lines = [
            "daiko-wakes 1",
            "cpus 5",
            "# time-ns task waker previous idle-mask-hex chosen",
            "0 7 0 1 1b 1",
            "500 8 0 1 1b 1",
            "500 9 0 1 1b 1",
            "lost 2",
            "end 3\n",
        ];
        assert_eq!(String::from_utf8(file).unwrap(), lines.join("\n"));
    }

    #[test]
    fn a_full_disk_is_told() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut trace = Trace::begin(Full, 1).unwrap();
        while !trace.has_failed() {
            trace.write(event(1, 1));
        }
        assert_eq!(trace.end(0).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
