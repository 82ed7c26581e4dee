//! Classes of processes, declared to the scheduler for all their threads.

use std::{collections::BTreeSet, os::fd::AsFd};

use daiko_core::place::Class;
use daiko_pair::thread::{self, Thread, ThreadId};
use daiko_scx::{Classes, Error};

use crate::{pair::process_of, problem::Problem};

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
    pub(super) fn declare(&mut self, to: &Classes<'_>) -> Result<usize, Error> {
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

    /// Makes the next call of `declare` begin anew, for a scheduler that was started again.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}

/// Returns true if the class was declared, false if the thread has ended.
fn declare(to: &Classes<'_>, thread: ThreadId, class: Class) -> Result<bool, Error> {
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
