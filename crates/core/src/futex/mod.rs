//! The word of a lock, on which its waiters sleep, in one process or in several.
//!
//! README.md beside this file has the states, the steps and the proof. The system calls are the
//! caller's.

use crate::atomic::{AtomicU32, Ordering, const_fn, spin_loop, unless_weakened};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Looks at a held lock before a contender sleeps.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 100 };

/// The word of a lock that names its holder, and that waiters sleep on.
///
/// ```text
///   31       30 .. 0
/// | WAITED | holder |     0: free
/// ```
///
/// WAITED: a waiter sleeps, or is about to. The holder is a number from 1 on that the users choose:
/// a thread's id, where waiters ask whether it lives.
///
/// Budget: a free lock is one RMW to take and one to free.
#[derive(Debug)]
pub struct LockWord(AtomicU32);

/// The system calls of a waiter.
pub trait FutexWait {
    /// Sleeps while `word` holds `expected`: until a wake, for a time of the caller's choice, or
    /// until anything else ends the sleep.
    fn sleep(&self, word: &AtomicU32, expected: u32) -> Slept;

    /// Returns true if the thread has died without freeing its locks. Only asked after
    /// [`Slept::TimedOut`].
    fn is_dead(&self, holder: u32) -> bool;
}

/// The end of a waiter's sleep.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slept {
    /// The word had changed, or a wake or a signal came.
    Looks,
    /// The time was over.
    TimedOut,
}

/// The waiters that the last holder has left.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// No waiter sleeps.
    Unwaited,
    /// The caller owes a futex wake of one thread. The lock may be gone already.
    Waited,
}

impl LockWord {
    const WAITED: u32 = 1 << 31;

    const_fn! {
        /// The word of a free lock.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            LockWord(AtomicU32::new(0))
        }
    }

    /// Takes the lock for `holder` if it is free.
    #[inline]
    #[must_use]
    pub fn try_take(&self, holder: u32) -> bool {
        debug_assert!(holder & !Self::WAITED != 0, "0 is a free lock");
        // Acquire: pairs with the Release in `free`.
        self.0.compare_exchange(0, holder, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock for `holder`, which waits for it.
    #[cold]
    pub fn take_slow(&self, holder: u32, calls: &impl FutexWait) {
        for _ in 0..LOOKS {
            spin_loop();
            if self.0.load(Ordering::Relaxed) == 0 && self.try_take(holder) {
                return;
            }
        }
        // A waiter that has slept takes the lock with the mark, as other waiters may sleep still.
        let marked = if cfg!(weaken = "futex-waited") { holder } else { holder | Self::WAITED };
        while !self.try_take(marked) {
            let seen = self.0.load(Ordering::Relaxed);
            if seen != 0
                && self.mark(seen)
                && calls.sleep(&self.0, seen | Self::WAITED) == Slept::TimedOut
                && calls.is_dead(seen & !Self::WAITED)
                && self.inherit(seen | Self::WAITED, marked)
            {
                return;
            }
        }
    }

    /// Marks the lock, so that its holder, as it was seen, wakes a waiter; false if it has changed.
    fn mark(&self, seen: u32) -> bool {
        if seen & Self::WAITED != 0 || cfg!(weaken = "futex-mark") {
            return true;
        }
        // Relaxed: it hands nothing over, and `free` reads it by its exchange.
        let marked = seen | Self::WAITED;
        self.0.compare_exchange(seen, marked, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock of a dead holder, unless another waiter was faster.
    fn inherit(&self, seen: u32, marked: u32) -> bool {
        if cfg!(weaken = "futex-inherit") {
            self.0.store(marked, Ordering::Relaxed);
            return true;
        }
        // Acquire: pairs with the Release in `free` of waiters that have inherited the lock before.
        // The stores of the dead holder are in memory once the kernel says that it is dead.
        self.0.compare_exchange(seen, marked, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Frees the lock. Only its holder. Another thread may take it at once, and end its life.
    #[inline]
    pub fn free(&self) -> Freed {
        // Release: pairs with the Acquire in `try_take`.
        let release = unless_weakened!("futex-free", Ordering::Release);
        match self.0.swap(0, release) & Self::WAITED {
            0 => Freed::Unwaited,
            _ => Freed::Waited,
        }
    }

    /// The number of the thread that held the lock a moment ago.
    pub fn holder(&self) -> Option<u32> {
        let holder = self.0.load(Ordering::Relaxed) & !Self::WAITED;
        (holder != 0).then_some(holder)
    }

    /// Returns true if a waiter slept, or was about to, a moment ago.
    pub fn is_waited_for(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Self::WAITED != 0
    }

    /// The word that waiters sleep on, to wake them.
    pub fn word(&self) -> &AtomicU32 {
        &self.0
    }
}
