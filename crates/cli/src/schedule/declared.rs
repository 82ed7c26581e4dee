//! Classes of processes, declared to the scheduler for all their threads.

use std::{
    collections::BTreeSet,
    os::fd::{AsFd, BorrowedFd},
    thread as os_thread,
    time::Duration,
};

use daiko_core::place::Class;
use daiko_pair::thread::{self, Thread, ThreadId};
use daiko_scx::{Classes, Error};

use crate::{pair::process_of, problem::Problem};

/// Classes of threads for the scheduler.
pub(super) trait Supply {
    /// Declares new classes. Returns false if the scheduler is to end.
    fn declare(&mut self, to: &Classes<'_>) -> Result<bool, Error>;

    /// Makes the next call of `declare` begin anew, for a scheduler that was started again.
    fn forget(&mut self);

    /// Waits for so long, or until there may be something new.
    fn wait(&mut self, time: Duration);
}

/// Declared classes, and the threads for which the scheduler knows them.
pub(super) struct Declared {
    classes: Vec<(ThreadId, Class)>,
    known: BTreeSet<ThreadId>,
}

impl Declared {
    /// Finds the processes.
    pub(super) fn find(classes: &[(u32, Class)]) -> Result<Self, Problem> {
        let find = |(id, class): &(u32, Class)| Ok((process_of(*id)?, *class));
        let classes = classes.iter().map(find).collect::<Result<_, Problem>>()?;
        Ok(Declared { classes, known: BTreeSet::new() })
    }

    /// Declares the classes of new threads. Returns the number of all threads with a class.
    pub(super) fn declare_new(&mut self, to: &Classes<'_>) -> Result<usize, Error> {
        let mut present = BTreeSet::new();
        for (process, class) in self.classes.iter().filter(|(process, _)| process.process_lives()) {
            for Thread { id, .. } in thread::of(process.pid).unwrap_or_default() {
                if self.known.contains(&id) || declare(to, id, *class)? {
                    present.insert(id);
                }
            }
        }
        self.known = present;
        Ok(self.known.len())
    }
}

impl Supply for Declared {
    fn declare(&mut self, to: &Classes<'_>) -> Result<bool, Error> {
        self.declare_new(to).map(|_| true)
    }

    fn forget(&mut self) {
        self.known.clear();
    }

    fn wait(&mut self, time: Duration) {
        os_thread::sleep(time);
    }
}

/// Returns true if the class was declared, false if the thread has ended.
pub(super) fn declare(to: &Classes<'_>, thread: ThreadId, class: Class) -> Result<bool, Error> {
    with_thread(thread, |held| to.declare(held, class)).map(|declared| declared.is_some())
}

/// The result of `act` with a pidfd of the thread; `None` if it has ended.
pub(super) fn with_thread<T>(
    thread: ThreadId,
    act: impl FnOnce(BorrowedFd<'_>) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    let held = match daiko_sys::thread::open(thread.tid) {
        Ok(held) => held,
        Err(_) if !thread.lives() => return Ok(None),
        Err(error) => {
            let ThreadId { tid, .. } = thread;
            return Err(Error::new(format!("cannot open thread {tid} (pidfd_open): {error}")));
        }
    };
    // The id may have been reused before it was opened.
    if !thread.lives() {
        return Ok(None);
    }
    match act(held.as_fd()) {
        Err(_) if !thread.lives() => Ok(None),
        done => done.map(Some),
    }
}
