//! Classes of processes, declared to the scheduler for all their threads.

use std::collections::BTreeSet;

use daiko_core::place::Class;
use daiko_pair::thread::{self, ThreadId};
use daiko_scx::{Classes, Error};

use crate::{pair::process_of, problem::Problem};

/// Declared classes, and the threads for which the scheduler knows them.
pub(super) struct Declared {
    classes: Vec<(ThreadId, Class)>,
    known: BTreeSet<ThreadId>,
}

impl Declared {
    /// Finds the processes and threads with these ids.
    pub(super) fn find(classes: &[(u32, Class)]) -> Result<Self, Problem> {
        let find = |(id, class): &(u32, Class)| Ok((process_of(*id)?, *class));
        let classes = classes.iter().map(find).collect::<Result<_, Problem>>()?;
        Ok(Declared { classes, known: BTreeSet::new() })
    }

    /// Declares the classes of new threads. Returns the number of all threads with a class.
    pub(super) fn declare(&mut self, to: &Classes<'_>) -> Result<usize, Error> {
        let mut present = BTreeSet::new();
        for (subject, class) in &self.classes {
            for thread in threads_of(*subject) {
                if self.known.contains(&thread) || declare(to, thread, *class)? {
                    present.insert(thread);
                }
            }
        }
        self.known = present;
        Ok(self.known.len())
    }

    /// Makes the next call of `declare` begin anew, for a scheduler that was started again.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}

/// The threads of a process, given by its first thread; of another thread, only that.
fn threads_of(subject: ThreadId) -> Vec<ThreadId> {
    match subject {
        ThreadId { pid, tid, .. } if pid == tid && subject.process_lives() => {
            thread::of(pid).unwrap_or_default().iter().map(|thread| thread.id).collect()
        }
        thread => Vec::from_iter(thread.lives().then_some(thread)),
    }
}

/// Returns true if the class was declared, false if the thread has ended.
pub(crate) fn declare(to: &Classes<'_>, thread: ThreadId, class: Class) -> Result<bool, Error> {
    use std::os::fd::AsFd;
    let Ok(held) = daiko_sys::thread::open(thread.tid) else { return Ok(false) };
    // The id may have been reused before it was opened.
    if !thread.lives() {
        return Ok(false);
    }
    match to.declare(held.as_fd(), class) {
        Err(_) if !thread.lives() => Ok(false),
        declared => declared.map(|()| true),
    }
}
