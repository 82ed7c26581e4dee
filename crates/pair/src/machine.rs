//! Requests to the kernel about threads, replaceable in tests.

use std::fs;
use std::io;

use daiko_sys::cpu::{self, CpuSet};

use crate::thread::{ThreadId, field};

/// Queries and changes of threads' affinities.
pub trait Machine {
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
}

/// This machine.
#[derive(Clone, Copy, Debug)]
pub struct ThisMachine;

impl Machine for ThisMachine {
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
    }

    impl Machine for Described {
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
    }

    pub(crate) fn thread(pid: u32, tid: u32) -> ThreadId {
        ThreadId { pid, tid, start: u64::from(tid) * 10 }
    }
}
