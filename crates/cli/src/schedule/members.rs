//! The threads of a scheduler that gets some processes only.

use std::{collections::BTreeSet, fs};

use daiko_pair::thread::{self, ThreadId};
use daiko_sys::policy::{self, SharedPolicy};

use crate::problem::Problem;

/// Threads that were given to the scheduler. Dropping this value gives all of them back, with all
/// threads that have inherited it.
pub(super) struct Members {
    /// Threads that belonged to it before, by their own choice.
    before: BTreeSet<ThreadId>,
}

impl Members {
    /// Gives the scheduler all normal threads of these processes and their descendants. Later
    /// threads inherit it.
    pub(super) fn give(pids: &[u32]) -> Result<Self, Problem> {
        let members = Members { before: extended() };
        // A thread that starts meanwhile has a parent that is found now or later.
        while members.give_present(pids)? {}
        Ok(members)
    }

    /// Returns true if a thread was given.
    fn give_present(&self, pids: &[u32]) -> Result<bool, Problem> {
        let mut given = false;
        for thread in threads(thread::families(pids.iter().copied())) {
            if policy::of(thread.tid).ok().flatten() != Some(SharedPolicy::Other) {
                continue;
            }
            match policy::set(thread.tid, SharedPolicy::Extended) {
                Ok(()) => given = true,
                Err(_) if !thread.lives() => {}
                Err(error) => {
                    let ThreadId { tid, .. } = thread;
                    return Err(Problem::System(format!(
                        "cannot give thread {tid} to the scheduler: {error}"
                    )));
                }
            }
        }
        Ok(given)
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        // Children inherit from threads that are not given back yet.
        let rest = || extended().into_iter().filter(|thread| !self.before.contains(thread));
        let give_back = |thread: ThreadId| policy::set(thread.tid, SharedPolicy::Other).is_ok();
        while rest().filter(|thread| give_back(*thread)).count() > 0 {}
    }
}

fn threads(pids: impl IntoIterator<Item = u32>) -> impl Iterator<Item = ThreadId> {
    let threads = |pid| thread::of(pid).unwrap_or_default();
    pids.into_iter().flat_map(threads).map(|thread| thread.id)
}

/// All threads of the machine with the policy of the scheduler.
fn extended() -> BTreeSet<ThreadId> {
    let names = fs::read_dir("/proc").into_iter().flatten();
    let pids = names.filter_map(|name| name.ok()?.file_name().to_str()?.parse().ok());
    let is_extended =
        |thread: &ThreadId| policy::of(thread.tid).ok().flatten() == Some(SharedPolicy::Extended);
    threads(pids).filter(is_extended).collect()
}
