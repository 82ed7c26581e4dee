//! The word of a lock, as one of the processes uses it: the queue of its own fibers and threads is
//! kept elsewhere.

use daiko_core::robust::{FoundData, Holder, Lock, RobustMutex, Unlock};

use super::wait::At;
use daiko_rt::Deadline;
use daiko_rt::fiber::panicking;

/// A lock's word, and its listeners.
#[derive(Clone, Copy)]
pub(super) struct MutexAt<'s> {
    pub(super) word: &'s RobustMutex,
    pub(super) at: At<'s>,
}

impl MutexAt<'_> {
    fn death_check(self) -> impl Fn(Holder) -> bool {
        move |holder| self.at.segment.is_gone(holder)
    }

    /// Attempts to take the word once.
    #[inline]
    pub(super) fn attempt(self) -> Lock {
        self.word.try_lock(self.at.segment.me(), self.death_check())
    }

    /// Takes the word if no live process has it.
    #[inline]
    pub(super) fn try_lock(self) -> Option<FoundData> {
        match self.attempt() {
            Lock::Locked(found) => Some(found),
            Lock::Held { by, .. } => {
                // So that a caller that tries again and again learns of a death, too.
                self.at.segment.watch(by);
                None
            }
            Lock::Contended => None,
        }
    }

    /// Takes the word; `None`: the deadline has passed.
    #[inline]
    pub(super) fn lock(self, deadline: Deadline) -> Option<FoundData> {
        match self.attempt() {
            Lock::Locked(found) => Some(found),
            other => self.lock_slow(other, deadline),
        }
    }

    #[cold]
    fn lock_slow(self, mut tried: Lock, deadline: Deadline) -> Option<FoundData> {
        loop {
            let in_time = self.wait_after(tried, deadline);
            tried = self.attempt();
            match tried {
                Lock::Locked(found) => return Some(found),
                _ if !in_time => return None,
                _ => {}
            }
        }
    }

    /// Waits until another try is due; returns false if the deadline has passed.
    pub(super) fn wait_after(self, tried: Lock, deadline: Deadline) -> bool {
        self.wait_after_or(tried, deadline, || false)
    }

    /// Waits as [`wait_after`](Self::wait_after) does, or until `holds`, which is rung for.
    pub(super) fn wait_after_or(
        self,
        tried: Lock,
        deadline: Deadline,
        holds: impl Fn() -> bool + Sync,
    ) -> bool {
        match tried {
            Lock::Held { by, seen } => match self.word.wait_for(seen) {
                // The holder rings: it was asked to before `one` registers the listener, which
                // looks once more behind a barrier.
                Some(seen) => self.at.one(by, deadline, || self.word.has_changed(seen) || holds()),
                None => !deadline.is_over(),
            },
            _ => !deadline.is_over(),
        }
    }

    /// Releases the word.
    #[inline]
    pub(super) fn unlock(self, poisoned: bool) {
        let me = self.at.segment.me();
        let left = if poisoned { self.word.unlock_poisoned(me) } else { self.word.unlock(me) };
        match left {
            Unlock::Quiet => {}
            // A peer that has written to the word may have erased the mark of a waiter.
            Unlock::Ring | Unlock::NotMine => self.at.ring(),
        }
    }
}

/// Returns true if a holder unlocks now because it panics: false if it panicked when it locked, or
/// is cancelled.
#[derive(Clone, Copy)]
pub(super) struct Poise {
    was_panicking: bool,
}

impl Poise {
    #[inline]
    pub(super) fn of_caller() -> Self {
        Poise { was_panicking: panicking() }
    }

    #[inline]
    pub(super) fn is_lost(self) -> bool {
        !self.was_panicking && panicking()
    }
}
