//! What is done once: whether it has been, who does it, and who waits for that.
//!
//! README.md beside this file has the protocol. Doing, waiting and waking are the caller's job.

use std::num::NonZeroU64;
use std::ptr::NonNull;

use crate::list::Unlinked;
use crate::lock::Contender;
use crate::sync::{AtomicU64, Ordering, const_fn, unless_weakened};
use crate::wait::{Node, Taken, WaitQueue};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

/// What is done once, 24 bytes.
///
/// Budget: one load where it has been done.
pub struct RawOnce<W> {
    /// Its word is a [`State`], which changes under the queue lock only.
    queue: WaitQueue<W>,
    /// Who runs, or ran last. Under the queue lock.
    runner: AtomicU64,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum State {
    /// Nobody has done it, or who began was kept from it.
    Undone = 0,
    /// Somebody does it.
    Running = 1,
    /// Who did it failed.
    Poisoned = 2,
    /// It is done, for good.
    Done = 3,
}

impl State {
    const fn of(word: u32) -> State {
        match word {
            0 => State::Undone,
            1 => State::Running,
            2 => State::Poisoned,
            _ => State::Done,
        }
    }
}

/// What somebody comes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// Does it, if nobody has; otherwise waits for somebody who does.
    pub runs: bool,
    /// Goes on though it failed before.
    pub despite_poison: bool,
}

/// What who comes has to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Nothing: it is done, and what was done is seen.
    Done,
    /// It, and then [`RawOnce::end`].
    Run {
        /// Whether it failed before.
        was_poisoned: bool,
    },
    /// Wait, by [`RawOnce::wait`].
    Wait,
    /// Nothing: it failed before.
    Poisoned,
    /// Nothing: the caller is who does it, and would wait for himself.
    Itself,
}

/// How somebody who ran has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is done.
    Done = State::Done as isize,
    /// It failed.
    Poisoned = State::Poisoned as isize,
    /// It is as if nobody had begun.
    Undone = State::Undone as isize,
}

impl<W: Copy> RawOnce<W> {
    const_fn! {
        /// Not done.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self { queue: WaitQueue::new(State::Undone as u32), runner: AtomicU64::new(0) }
        }
    }

    /// Whether it is done, so that the caller sees what was done.
    #[inline]
    pub fn is_done(&self) -> bool {
        // Acquire: pairs with the Release in `end`.
        self.queue.word().load(Ordering::Acquire) == State::Done as u32
    }

    /// Under the queue lock.
    fn state(&self) -> State {
        State::of(self.queue.word().load(Ordering::Relaxed))
    }

    /// Comes for `purpose`; `caller` is nobody else's number.
    pub fn begin(&self, by: &impl Contender, caller: NonZeroU64, purpose: Purpose) -> Begin {
        let _queue = self.queue.lock(by);
        let begin = self.look(caller, purpose);
        if let Begin::Run { .. } = begin {
            self.queue.word().store(State::Running as u32, Ordering::Relaxed);
            self.runner.store(caller.get(), Ordering::Relaxed);
        }
        begin
    }

    /// What `caller` has to do. Under the queue lock.
    fn look(&self, caller: NonZeroU64, purpose: Purpose) -> Begin {
        let Purpose { runs, despite_poison } = purpose;
        match self.state() {
            State::Done => Begin::Done,
            State::Running if self.runner.load(Ordering::Relaxed) == caller.get() => Begin::Itself,
            State::Poisoned if !despite_poison => Begin::Poisoned,
            State::Undone if runs => Begin::Run { was_poisoned: false },
            State::Poisoned if runs => Begin::Run { was_poisoned: true },
            State::Undone | State::Running | State::Poisoned => Begin::Wait,
        }
    }

    /// Puts `node` into the queue, if there still is something to wait for: until it is claimed, and
    /// the caller begins anew. Otherwise false, and he does so at once.
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

    /// Ends a run that [`begin`](Self::begin) has let begin; whom the caller wakes, to begin anew.
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
