//! An initialization that is run once, and the queue of callers that wait for it.
//!
//! README.md beside this file has the protocol. Running, waiting and waking are the caller's job.

use std::num::NonZeroU64;
use std::ptr::NonNull;

use crate::atomic::{AtomicU64, Ordering, const_fn, unless_weakened};
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::wait::{Node, Taken, WaitQueue};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The state of an initialization, 24 bytes.
///
/// Budget: one load once it is done.
pub struct RawOnce<W> {
    /// The queue of waiters. Its word is a [`OncePhase`], which changes under the queue lock only.
    queue: WaitQueue<W>,
    /// The number of the caller that runs it, or ran it last. Under the queue lock.
    runner: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum OncePhase {
    /// The closure has not been run, or the run was cancelled.
    Undone = 0,
    /// A caller runs it.
    Running = 1,
    /// The last run failed.
    Poisoned = 2,
    /// The closure has completed, for good.
    Done = 3,
}

impl OncePhase {
    const fn of(word: u32) -> OncePhase {
        match word {
            0 => OncePhase::Undone,
            1 => OncePhase::Running,
            2 => OncePhase::Poisoned,
            _ => OncePhase::Done,
        }
    }
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// Runs the initialization, if it has not been run; otherwise waits for another caller that
    /// does.
    pub runs: bool,
    /// Goes on even if it failed before.
    pub despite_poison: bool,
}

/// The next action of a caller.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// No run: the closure has completed, and its writes are seen.
    Done,
    /// Run it, and then call [`RawOnce::end`].
    Run {
        /// True if it failed before.
        was_poisoned: bool,
    },
    /// Wait, by [`RawOnce::wait`].
    Wait,
    /// No run: the closure failed before.
    Poisoned,
    /// No run: the caller itself runs the closure, and would wait for itself.
    Itself,
}

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The closure has completed.
    Done = OncePhase::Done as isize,
    /// The closure has failed.
    Poisoned = OncePhase::Poisoned as isize,
    /// The state is as if no run had begun.
    Undone = OncePhase::Undone as isize,
}

impl<W: Copy> RawOnce<W> {
    const_fn! {
        /// Creates the state of an initialization that has not been run.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self { queue: WaitQueue::new(OncePhase::Undone as u32), runner: AtomicU64::new(0) }
        }
    }

    /// Returns true if it is done, so that the caller sees its writes.
    #[inline]
    pub fn is_done(&self) -> bool {
        // Acquire: pairs with the Release in `end`.
        self.queue.word().load(Ordering::Acquire) == OncePhase::Done as u32
    }

    /// Returns the state. Under the queue lock.
    fn state(&self) -> OncePhase {
        OncePhase::of(self.queue.word().load(Ordering::Relaxed))
    }

    /// Begins a call for `purpose`; `caller` is a number that no other caller has.
    pub fn begin(&self, by: &impl Contender, caller: NonZeroU64, purpose: Purpose) -> Begin {
        let _queue = self.queue.lock(by);
        let begin = self.look(caller, purpose);
        if let Begin::Run { .. } = begin {
            self.queue.word().store(OncePhase::Running as u32, Ordering::Relaxed);
            self.runner.store(caller.get(), Ordering::Relaxed);
        }
        begin
    }

    /// Returns the next action of `caller`. Under the queue lock.
    fn look(&self, caller: NonZeroU64, purpose: Purpose) -> Begin {
        let Purpose { runs, despite_poison } = purpose;
        match self.state() {
            OncePhase::Done => Begin::Done,
            OncePhase::Running if self.runner.load(Ordering::Relaxed) == caller.get() => {
                Begin::Itself
            }
            OncePhase::Poisoned if !despite_poison => Begin::Poisoned,
            OncePhase::Undone if runs => Begin::Run { was_poisoned: false },
            OncePhase::Poisoned if runs => Begin::Run { was_poisoned: true },
            OncePhase::Undone | OncePhase::Running | OncePhase::Poisoned => Begin::Wait,
        }
    }

    /// Puts `node` into the queue and returns true, if the caller still has to wait; once the node
    /// is claimed the caller begins anew. Otherwise returns false, and it begins anew at once.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`](crate::wait::Locked::enqueue); the queue is left by
    /// [`leave`](Self::leave).
    #[must_use]
    pub unsafe fn wait(
        &self,
        by: &impl Contender,
        node: NonNull<Node<W>>,
        caller: NonZeroU64,
        purpose: Purpose,
    ) -> bool {
        let mut queue = self.queue.lock(by);
        let waits = cfg!(weaken = "once-look") || self.look(caller, purpose) == Begin::Wait;
        if waits {
            // SAFETY: passed on to the caller.
            unsafe { queue.enqueue(node) };
        }
        waits
    }

    /// Ends a run that [`begin`](Self::begin) has started; returns the waiters, which the caller
    /// wakes to begin anew.
    pub fn end(&self, by: &impl Contender, end: End) -> Taken<W> {
        let mut queue = self.queue.lock(by);
        // Release: pairs with the Acquire in `is_done`.
        let release = unless_weakened!("once-end", Ordering::Release);
        self.queue.word().store(end as u32, release);
        queue.take_all()
    }

    /// Takes `node` out of the queue, unless it was claimed before.
    ///
    /// # Safety
    ///
    /// `node` is alive, and was given to [`wait`](Self::wait) of this object last.
    pub unsafe fn leave(&self, by: &impl Contender, node: NonNull<Node<W>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.queue.unlink(by, node) }
    }
}
