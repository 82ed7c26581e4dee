//! Changes without mail: a thread announces them, and a worker looks for them before it sleeps.
//!
//! README.md beside this file has the steps and the proof. Mail needs none of this: the sender
//! finds the parked mark in the word that it exchanges.

use crate::atomic::{AtomicBool, Ordering, const_fn, fence};
use crate::barrier::Barrier;
use crate::fiber::{Addressee, Inbox};
use crate::idle::IdleSet;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Proof that the caller has passed the barrier between a change and the look at parked marks.
#[derive(Debug)]
#[must_use = "workers that look for the change before they sleep are told of it"]
pub struct Announcement(());

impl Announcement {
    /// Announces the changes that the caller has made, to any number of workers.
    #[inline]
    pub fn of_changes() -> Self {
        if !cfg!(weaken = "announce-fence") {
            // Pairs with the barrier in `LastLook::park`: either the owner sees the change when it
            // looks, or `finds_parked` sees the mark.
            fence(Ordering::SeqCst);
        }
        Announcement(())
    }

    /// Returns true if the owner of `inbox` was parked and the caller owes it the unpark: the mark
    /// is taken back.
    #[inline]
    #[must_use = "the caller owes the unpark"]
    pub fn finds_parked<T: Addressee>(&self, inbox: &Inbox<T>) -> bool {
        // The look first: the owner of an awake inbox keeps its line.
        inbox.is_parked() && inbox.unpark()
    }
}

/// Proof that a worker is marked parked and has passed a barrier since: a change that this look
/// misses is announced to the mark.
#[derive(Debug)]
#[must_use = "the owner looks at everything that other threads announce to it, before it sleeps"]
pub struct LastLook(());

impl LastLook {
    /// Marks the owner of `inbox` parked, and in `shared`, if it takes work that any worker may
    /// take, as the worker of that number; `None` if there is mail, so that it stays awake. Only
    /// the owner.
    ///
    /// An owner that finds a change, or wakes by itself, takes both marks back.
    pub fn park<T: Addressee>(
        inbox: &Inbox<T>,
        shared: Option<(&IdleSet, usize)>,
        barrier: &impl Barrier,
    ) -> Option<Self> {
        if !inbox.park() {
            return None;
        }
        match shared {
            // Its barrier serves here as well.
            Some((idle, worker)) => idle.announce(worker, barrier),
            None if cfg!(weaken = "announce-look") => {}
            // Pairs with the fence in `of_changes`.
            None => barrier.heavy(),
        }
        Some(LastLook(()))
    }
}

/// A flag that other threads have left something for a worker, where the state itself is under a
/// lock.
#[derive(Debug)]
pub struct Flag(AtomicBool);

impl Flag {
    const_fn! {
        /// A flag that is down.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Flag(AtomicBool::new(false))
        }
    }

    /// Raises the flag; an [`Announcement`] follows. Under the lock of the state.
    pub fn raise(&self) {
        // Relaxed: the fence of the announcement orders it.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Lowers the flag, as the state is taken. Under the lock of the state.
    pub fn lower(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Returns true if something may be there. While the owner polls: a change that has just come
    /// is seen at the next look.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns true if something is there that is not announced to the mark of the owner.
    #[inline]
    pub fn is_raised_at(&self, _behind_barrier: &LastLook) -> bool {
        self.is_raised()
    }
}
