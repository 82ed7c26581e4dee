//! Notice of the threads and processes that a thread of another process starts.
//!
//! The kernel writes a record to the buffer of a perf event when the event's thread starts a thread
//! or a process, before that runs, and another one when the event's thread ends. The event itself
//! counts nothing.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::atomic::Ordering;
use crate::counters::CounterError;
use crate::memory::{Mapping, page_size};
use crate::perf::{self, Attributes};
use crate::sampling::{HEAD, control_word};

/// Notice of the first start since it was opened.
#[derive(Debug)]
pub struct StartWatch {
    event: File,
    ring: Mapping,
}

impl StartWatch {
    /// Watches the thread with id `thread`, of any process that the caller may trace.
    ///
    /// # Errors
    ///
    /// The errors of [`Sampler::open`](crate::sampling::Sampler::open).
    ///
    /// # Examples
    ///
    /// ```
    /// use daiko_sys::{starts::{self, StartWatch}, thread};
    /// use std::time::Duration;
    ///
    /// if let Ok(watch) = StartWatch::open(thread::id()) {
    ///     assert_eq!(starts::wait(&[&watch], Duration::ZERO), [false]);
    ///     std::thread::spawn(|| ()).join().unwrap();
    ///     assert_eq!(starts::wait(&[&watch], Duration::ZERO), [true]);
    /// }
    /// ```
    pub fn open(thread: u32) -> Result<Self, CounterError> {
        const DUMMY: u64 = 9;
        let attributes = Attributes {
            kind: perf::SOFTWARE,
            config: DUMMY,
            flags: perf::STARTS_AND_ENDS | perf::WATERMARK | perf::NOT_KERNEL | perf::NOT_BELOW,
            // A byte, so that each record wakes.
            wakeup: 1,
            ..Attributes::default()
        };
        let event = perf::open(&attributes, thread, None)?;
        let ring = Mapping::of_file(event.as_fd(), 2 * page_size());
        Ok(Self { ring: ring.map_err(|_| CounterError::Locked)?, event })
    }

    fn has_record(&self) -> bool {
        // Relaxed: the records are not read.
        control_word(&self.ring, HEAD).load(Ordering::Relaxed) > 0
    }
}

/// Waits until one of the threads has started a thread or a process since its watch was opened, or
/// has ended, at most for `most`. Returns for each watch whether that is so. May return earlier, as
/// after a signal.
pub fn wait(watches: &[&StartWatch], most: Duration) -> Vec<bool> {
    let entry = |watch: &&StartWatch| libc::pollfd {
        fd: watch.event.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut entries: Vec<libc::pollfd> = watches.iter().map(entry).collect();
    // The kernel reports a record by `poll` only once.
    let most = if watches.iter().any(|watch| watch.has_record()) { Duration::ZERO } else { most };
    let ms = most.as_millis() as i32 + i32::from(most.subsec_nanos() % 1_000_000 > 0);
    // SAFETY: the entries are live, and as many as stated.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, ms) };
    let all = watches.iter().zip(entries);
    all.map(|(watch, entry)| entry.revents != 0 || watch.has_record()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::mpsc::{self, Sender};
    use std::thread::{self, JoinHandle};

    const LONG: Duration = Duration::from_secs(60);

    type Act = fn();

    /// A thread that does as it is told, and a watch of it; `None` if watches are refused.
    fn watched() -> Option<(StartWatch, Sender<Act>, JoinHandle<()>)> {
        let (tell, told) = mpsc::channel::<Act>();
        let (answer, answered) = mpsc::channel();
        let thread = thread::spawn(move || {
            answer.send(crate::thread::id()).unwrap();
            told.iter().for_each(|act| act());
        });
        match StartWatch::open(answered.recv().unwrap()) {
            Ok(watch) => Some((watch, tell, thread)),
            Err(error) => {
                println!("skipped: {error}");
                None
            }
        }
    }

    #[test]
    fn a_wait_ends_once_a_thread_or_a_process_is_started() {
        let starts: [Act; 2] = [
            || thread::spawn(|| ()).join().unwrap(),
            || assert!(Command::new("true").status().unwrap().success()),
        ];
        for start in starts {
            let Some((watch, tell, thread)) = watched() else { return };
            let Some((quiet, _stays, _)) = watched() else { return };
            assert_eq!(wait(&[&quiet, &watch], Duration::ZERO), [false, false]);
            tell.send(start).unwrap();
            while wait(&[&quiet, &watch], LONG) != [false, true] {}
            assert_eq!(wait(&[&watch], LONG), [true], "it stays");
            drop(tell);
            thread.join().unwrap();
        }
    }

    #[test]
    fn a_thread_that_ends_is_reported() {
        let Some((watch, tell, thread)) = watched() else { return };
        drop(tell);
        thread.join().unwrap();
        while wait(&[&watch], LONG) != [true] {}
    }

    #[test]
    fn a_start_by_another_thread_is_not_reported() {
        let Some((watch, _tell, _)) = watched() else { return };
        thread::spawn(|| ()).join().unwrap();
        assert_eq!(wait(&[&watch], Duration::ZERO), [false]);
    }
}
