//! Requests to the kernel about threads, replaceable in tests.

use std::fs;
use std::io;
use std::time::Duration;

use daiko_sys::counters::CounterError;
use daiko_sys::cpu::{self, CpuSet};
use daiko_sys::starts::{self, StartWatch};

use crate::thread::{self, ThreadId, field};

/// Queries and changes of threads' affinities.
pub trait Machine {
    /// A watch of the threads and processes that a thread starts.
    type Watch: std::fmt::Debug;

    /// The CPUs that are online.
    ///
    /// # Errors
    ///
    /// The error of reading them.
    fn online(&self) -> io::Result<CpuSet>;

    /// The affinity of a thread, including offline CPUs.
    ///
    /// # Errors
    ///
    /// `ESRCH` if it has ended.
    fn allowed_of(&self, thread: ThreadId) -> io::Result<CpuSet>;

    /// Restricts the thread to these CPUs.
    ///
    /// # Errors
    ///
    /// `ESRCH` if it has ended, `PermissionDenied` for threads of another user, `InvalidInput` if
    /// no CPU of the set is available to it.
    fn bind(&self, thread: ThreadId, set: &CpuSet) -> io::Result<()>;

    /// All threads of these processes and their descendants.
    fn families(&self, pids: &[u32]) -> Vec<ThreadId>;

    /// Watches a thread.
    ///
    /// # Errors
    ///
    /// If the kernel offers no watch of that thread.
    fn watch(&self, thread: ThreadId) -> Result<Self::Watch, CounterError>;

    /// Waits, at most for `most`, until a thread has started another thread or a process since it
    /// is watched, or has ended. Returns for each watch whether that is so.
    fn wait(&self, watches: &[&Self::Watch], most: Duration) -> Vec<bool>;
}

/// This machine.
#[derive(Clone, Copy, Debug)]
pub struct ThisMachine;

impl Machine for ThisMachine {
    type Watch = StartWatch;

    fn online(&self) -> io::Result<CpuSet> {
        cpu::online()
    }

    // `sched_getaffinity` omits offline CPUs: a thread put back by its result would never run there
    // again.
    fn allowed_of(&self, thread: ThreadId) -> io::Result<CpuSet> {
        let ThreadId { pid, tid, .. } = thread;
        let status = fs::read(format!("/proc/{pid}/task/{tid}/status"))?;
        same(thread)?;
        let list = field(&status, b"Cpus_allowed_list:").and_then(|list| str::from_utf8(list).ok());
        list.and_then(|list| list.trim().parse().ok())
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn bind(&self, thread: ThreadId, set: &CpuSet) -> io::Result<()> {
        same(thread)?;
        cpu::bind(thread.tid, set)
    }

    fn families(&self, pids: &[u32]) -> Vec<ThreadId> {
        let families = thread::families(pids.iter().copied()).into_iter();
        families.flat_map(|pid| thread::of(pid).unwrap_or_default()).map(|one| one.id).collect()
    }

    fn watch(&self, thread: ThreadId) -> Result<StartWatch, CounterError> {
        StartWatch::open(thread.tid)
    }

    fn wait(&self, watches: &[&StartWatch], most: Duration) -> Vec<bool> {
        starts::wait(watches, most)
    }
}

/// Checks that the id still belongs to this thread.
fn same(thread: ThreadId) -> io::Result<()> {
    match thread.lives() {
        true => Ok(()),
        false => Err(io::Error::from(io::ErrorKind::NotFound)),
    }
}

/// Returns true if the error means that the thread has ended.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}

/// Synthetic threads with visible affinities.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    #[derive(Clone, Debug, Default)]
    pub(crate) struct Described {
        pub(crate) masks: Rc<RefCell<BTreeMap<ThreadId, CpuSet>>>,
        /// Threads of another user.
        pub(crate) refused: Rc<RefCell<Vec<ThreadId>>>,
        /// The CPUs that are offline.
        pub(crate) offline: Rc<RefCell<CpuSet>>,
        /// Numbers of starts by threads; `None` if they cannot be watched.
        pub(crate) starts: Rc<RefCell<Option<BTreeMap<ThreadId, usize>>>>,
    }

    impl Described {
        pub(crate) fn with(threads: &[ThreadId], mask: &CpuSet) -> Self {
            let described = Self::default();
            threads.iter().for_each(|thread| described.set(*thread, mask));
            described
        }

        pub(crate) fn set(&self, thread: ThreadId, mask: &CpuSet) {
            self.masks.borrow_mut().insert(thread, mask.clone());
        }

        pub(crate) fn mask(&self, thread: ThreadId) -> String {
            self.masks.borrow()[&thread].to_string()
        }

        /// Takes a CPU offline. A thread without any other CPU may run everywhere then.
        pub(crate) fn unplug(&self, cpu: usize) {
            self.offline.borrow_mut().insert(cpu);
            let online = self.online().unwrap();
            let mut masks = self.masks.borrow_mut();
            let stranded = masks.values_mut().filter(|mask| mask.intersection(&online).is_empty());
            stranded.for_each(|mask| *mask = online.clone());
        }

        pub(crate) fn end(&self, thread: ThreadId) {
            self.masks.borrow_mut().remove(&thread);
        }

        /// Has `parent` start a thread, which inherits its affinity.
        pub(crate) fn start(&self, parent: ThreadId, child: ThreadId) {
            let mask = self.allowed_of(parent).unwrap();
            self.set(child, &mask);
            let mut starts = self.starts.borrow_mut();
            starts.iter_mut().for_each(|starts| *starts.entry(parent).or_default() += 1);
        }

        fn starts_of(&self, thread: ThreadId) -> Option<usize> {
            let starts = self.starts.borrow();
            starts.as_ref().map(|starts| starts.get(&thread).copied().unwrap_or_default())
        }
    }

    impl Machine for Described {
        /// The thread, and its starts before.
        type Watch = (ThreadId, usize);

        fn online(&self) -> io::Result<CpuSet> {
            Ok((0..8).collect::<CpuSet>().difference(&self.offline.borrow()))
        }

        fn allowed_of(&self, thread: ThreadId) -> io::Result<CpuSet> {
            self.masks.borrow().get(&thread).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
        }

        fn bind(&self, thread: ThreadId, set: &CpuSet) -> io::Result<()> {
            if self.refused.borrow().contains(&thread) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            self.allowed_of(thread)?;
            self.set(thread, set);
            Ok(())
        }

        /// All threads are of one family.
        fn families(&self, _: &[u32]) -> Vec<ThreadId> {
            self.masks.borrow().keys().copied().collect()
        }

        fn watch(&self, thread: ThreadId) -> Result<(ThreadId, usize), CounterError> {
            Ok((thread, self.starts_of(thread).ok_or(CounterError::NotAllowed)?))
        }

        fn wait(&self, watches: &[&(ThreadId, usize)], _: Duration) -> Vec<bool> {
            let has_started =
                |(thread, before): &&(ThreadId, usize)| self.starts_of(*thread) > Some(*before);
            watches.iter().map(has_started).collect()
        }
    }

    /// A pipe with visible contents.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Pipe(Rc<RefCell<Vec<u8>>>);

    impl Pipe {
        pub(crate) fn take(&self) -> String {
            String::from_utf8(self.0.take()).unwrap()
        }
    }

    impl io::Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    pub(crate) fn thread(pid: u32, tid: u32) -> ThreadId {
        ThreadId { pid, tid, start: u64::from(tid) * 10 }
    }
}
