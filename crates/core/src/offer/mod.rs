//! The end of work that its owner has offered to thieves, and lies in the owner's frame.
//!
//! README.md beside this file has the states, the steps and the proof.

use std::ptr::{self, NonNull};

use crate::atomic::{AtomicPtr, Ordering, const_fn, unless_weakened};
use crate::fiber::{Completion, Finish, WaiterId};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The owner wants the work cancelled; no runner is known yet.
const CANCELLED: usize = 1;

/// Work that a thief has claimed, as its owner and its runner share it.
///
/// | runner word | meaning |
/// |---|---|
/// | 0 | no runner has begun |
/// | 1 | cancelled before a runner had begun |
/// | address of a runner | it has begun |
///
/// Budget: one RMW of the runner at its begin, one at its end; one of the owner to wait, one to
/// cancel. Work that its owner takes back costs nothing here.
#[derive(Debug)]
pub struct Offered<R> {
    runner: AtomicPtr<R>,
    end: Completion,
}

/// The state of the work as its runner begins.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The work is to be done.
    Wanted,
    /// The owner has cancelled it: the runner ends without doing it.
    Cancelled,
}

impl<R> Offered<R> {
    const_fn! {
        /// Creates the words of work without a runner.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Offered { runner: AtomicPtr::new(ptr::null_mut()), end: Completion::new() }
        }
    }

    /// Begins the work, by the thread that has claimed it and made `runner`, before the runner
    /// runs.
    pub fn begin(&self, runner: NonNull<R>) -> Begun {
        // Release: pairs with the Acquire in `cancel` and `runner`, for the contents of the runner.
        // An exchange, not a load and a store, which would lose a cancel in between.
        if cfg!(weaken = "offer-begin") {
            let before = self.runner.load(Ordering::Relaxed);
            self.runner.store(runner.as_ptr(), Ordering::Release);
            return begun(before);
        }
        begun(
            self.runner.swap(runner.as_ptr(), unless_weakened!("offer-runner", Ordering::Release)),
        )
    }

    /// Cancels the work, on behalf of its owner. Returns the runner, which the owner has to cancel,
    /// if it has begun; otherwise it learns of the cancel as it begins. The runner stays in use as
    /// long as the owner has its reference.
    pub fn cancel(&self) -> Option<NonNull<R>> {
        let mark = ptr::without_provenance_mut(CANCELLED);
        let none = ptr::null_mut();
        // Acquire: pairs with the Release in `begin`.
        match self.runner.compare_exchange(none, mark, Ordering::Relaxed, Ordering::Acquire) {
            Ok(_) => None,
            Err(runner) => known(runner),
        }
    }

    /// Returns the runner, if one has begun.
    pub fn runner(&self) -> Option<NonNull<R>> {
        // Acquire: pairs with the Release in `begin`.
        known(self.runner.load(Ordering::Acquire))
    }

    /// Ends the work, as the runner's last access to the owner's frame. Returns the waiting owner:
    /// that wait is claimed.
    ///
    /// The frame that `this` lies in may be gone before this returns: hence no `&self`.
    ///
    /// # Safety
    ///
    /// The caller has the work, ends it once, and the frame stays until this function has ended it.
    #[must_use]
    pub unsafe fn end(this: NonNull<Self>) -> Option<WaiterId> {
        // SAFETY: the frame stays until the exchange in `finish`, which is the last access.
        match unsafe { &this.as_ref().end }.finish() {
            Finish::Wake(owner) => Some(owner),
            Finish::Unobserved | Finish::Detached => None,
        }
    }

    /// Publishes that `owner` waits for the end. Returns false if the work has ended already.
    #[must_use]
    pub fn wait(&self, owner: WaiterId) -> bool {
        self.end.wait(owner)
    }

    /// Returns true if the work has ended, so that the owner sees all that the runner has written.
    pub fn has_ended(&self) -> bool {
        self.end.is_done()
    }

    /// Makes loom fail unless the frame may go.
    #[cfg(all(test, loom))]
    fn reclaim(&self) {
        self.end.reclaim();
    }
}

fn begun<R>(before: *mut R) -> Begun {
    match before.addr() {
        CANCELLED => Begun::Cancelled,
        _ => Begun::Wanted,
    }
}

fn known<R>(runner: *mut R) -> Option<NonNull<R>> {
    NonNull::new(runner).filter(|runner| runner.addr().get() != CANCELLED)
}
