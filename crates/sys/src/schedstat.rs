//! The time that a thread has run, and has waited for a CPU, as the kernel's scheduler counts it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::descriptor::Reserved;

/// An open `/proc/ID/schedstat` of a thread.
#[derive(Debug)]
pub struct SchedStat(Reserved<File>);

/// Times of a thread since its start, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedTimes {
    /// Time on a CPU.
    pub ran_ns: u64,
    /// Time in which it was ready to run, but had no CPU.
    pub delayed_ns: u64,
}

impl SchedStat {
    /// Opens the counts of the thread with kernel id `thread`.
    ///
    /// # Errors
    ///
    /// There is no such thread, or the kernel is built without these counts
    /// (`CONFIG_SCHED_INFO`).
    pub fn open(thread: u32) -> io::Result<Self> {
        let file = File::open(format!("/proc/{thread}/schedstat"))?;
        Ok(SchedStat(Reserved::new(file)))
    }

    /// Reads the counts; `None` if the thread has ended.
    ///
    /// # Examples
    ///
    /// ```
    /// use daiko_sys::schedstat::SchedStat;
    ///
    /// let times = SchedStat::open(daiko_sys::thread::id()).map(|stat| stat.read());
    /// // Not every kernel has these counts.
    /// if let Ok(times) = times {
    ///     assert!(times.is_some());
    /// }
    /// ```
    pub fn read(&self) -> Option<SchedTimes> {
        let mut text = [0; 64];
        let read = self.0.read_at(&mut text, 0).ok()?;
        parse(text.get(..read)?)
    }
}

/// Parses `RAN DELAYED TIMES`.
#[doc(hidden)]
pub fn parse(text: &[u8]) -> Option<SchedTimes> {
    let mut fields = str::from_utf8(text).ok()?.split_ascii_whitespace();
    let mut next = || fields.next()?.parse().ok();
    Some(SchedTimes { ran_ns: next()?, delayed_ns: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_numbers_count() {
        let times = SchedTimes { ran_ns: 12, delayed_ns: 345 };
        assert_eq!(parse(b"12 345 6\n"), Some(times));
        assert_eq!(parse(b"12 345"), Some(times));
        for nonsense in [&b""[..], b"12", b"12 x 6", b"-1 2 3", b"\xff 2 3"] {
            assert_eq!(parse(nonsense), None);
        }
    }

    #[test]
    fn a_thread_that_computes_is_seen_to_run() {
        let Ok(stat) = SchedStat::open(crate::thread::id()) else {
            println!("skipped: the kernel has no schedstat");
            return;
        };
        let before = stat.read().unwrap();
        while stat.read().unwrap().ran_ns == before.ran_ns {
            std::thread::yield_now();
        }
        assert!(SchedStat::open(u32::MAX).is_err());
    }

    #[test]
    fn the_counts_of_a_thread_that_has_ended_are_gone() {
        let stat = std::thread::spawn(|| SchedStat::open(crate::thread::id())).join().unwrap();
        let Ok(stat) = stat else {
            println!("skipped: the kernel has no schedstat");
            return;
        };
        // The kernel removes the entry a moment after the join.
        while stat.read().is_some() {
            std::thread::yield_now();
        }
    }
}
