//! The word of a lock, as one of the processes has it: who of its fibers and threads is another's affair.

use daiko_core::robust::{Found, Holder, Lock, Mutex, Unlock};

use super::wait::At;
use daiko_rt::fiber::panicking;
use daiko_rt::wait::Deadline;

/// A lock's word, and who waits for it.
#[derive(Clone, Copy)]
pub(super) struct Word<'s> {
    pub(super) word: &'s Mutex,
    pub(super) at: At<'s>,
}

impl Word<'_> {
    fn is_gone(self) -> impl Fn(Holder) -> bool {
        move |holder| self.at.segment.is_gone(holder)
    }

    /// Takes it if nobody who lives has it.
    #[inline]
    pub(super) fn try_lock(self) -> Option<Found> {
        match self.word.try_lock(self.at.segment.me(), self.is_gone()) {
            Lock::Locked(found) => Some(found),
            Lock::Held { by, .. } => {
                // So that who tries again and again learns of a death, too.
                self.at.segment.watch(by);
                None
            }
            Lock::Contended => None,
        }
    }

    /// Takes it; `None`: the deadline has passed.
    #[inline]
    pub(super) fn lock(self, deadline: Deadline) -> Option<Found> {
        match self.word.try_lock(self.at.segment.me(), self.is_gone()) {
            Lock::Locked(found) => Some(found),
            other => self.lock_slow(other, deadline),
        }
    }

    #[cold]
    fn lock_slow(self, mut tried: Lock, deadline: Deadline) -> Option<Found> {
        loop {
            let in_time = self.wait_after(tried, deadline);
            tried = self.word.try_lock(self.at.segment.me(), self.is_gone());
            match tried {
                Lock::Locked(found) => return Some(found),
                _ if !in_time => return None,
                _ => {}
            }
        }
    }

    /// Waits until another try is due; false: the deadline has passed.
    pub(super) fn wait_after(self, tried: Lock, deadline: Deadline) -> bool {
        match tried {
            Lock::Held { by, seen } => match self.word.wait_for(seen) {
                // He rings, as he has been told so before `one` says where, and looks once more behind a barrier.
                Some(seen) => self.at.one(by, deadline, || self.word.has_changed(seen)),
                None => !deadline.is_over(),
            },
            _ => !deadline.is_over(),
        }
    }

    /// Gives it back.
    #[inline]
    pub(super) fn unlock(self, poisoned: bool) {
        let me = self.at.segment.me();
        let left = if poisoned { self.word.unlock_poisoned(me) } else { self.word.unlock(me) };
        match left {
            Unlock::Quiet => {}
            // A peer that has written to the word may have effaced that somebody waits.
            Unlock::Ring | Unlock::NotMine => self.at.ring(),
        }
    }
}

/// Whether a holder who lets go now does so because he panics: not if he did when he came, nor if he is cancelled.
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
