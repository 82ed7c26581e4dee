//! What is asked of the kernel about threads, so that tests can answer instead.

use std::fs;
use std::io;

use daiko_sys::cpu::{self, CpuSet};

use crate::thread::{ThreadId, field};

/// Where threads may run, and whether they are there.
pub trait Machine {
    /// The CPUs that are online.
    ///
    /// # Errors
    ///
    /// What keeps it from telling.
    fn online(&self) -> io::Result<CpuSet>;

    /// The CPUs that a thread may run on, be they online or not.
    ///
    /// # Errors
    ///
    /// `ESRCH` if it has ended.
    fn allowed_of(&self, thread: ThreadId) -> io::Result<CpuSet>;

    /// Lets it run on these only.
    ///
    /// # Errors
    ///
    /// `ESRCH` if it has ended, `PermissionDenied` for threads of others, `InvalidInput` if no CPU of the set is there for it.
    fn bind(&self, thread: ThreadId, set: &CpuSet) -> io::Result<()>;
}

/// This one.
#[derive(Clone, Copy, Debug)]
pub struct Kernel;

impl Machine for Kernel {
    fn online(&self) -> io::Result<CpuSet> {
        cpu::online()
    }

    // `sched_getaffinity` leaves out what is offline: put back, a thread would never run there again.
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

/// The id may be another's by now.
fn same(thread: ThreadId) -> io::Result<()> {
    match thread.lives() {
        true => Ok(()),
        false => Err(io::Error::from(io::ErrorKind::NotFound)),
    }
}

/// Whether the thread of a call has ended.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}

/// Threads that are made up, with masks to be looked at.
#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    #[derive(Clone, Debug, Default)]
    pub(crate) struct Described {
        pub(crate) masks: Rc<RefCell<BTreeMap<ThreadId, CpuSet>>>,
        /// Threads of others.
        pub(crate) refused: Rc<RefCell<Vec<ThreadId>>>,
        /// CPUs that are not online.
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

        /// A thread that may run nowhere else may run everywhere then.
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
