//! The stages of a home.

use crate::atomic::{AtomicU8, Ordering};

/// The stage of a home. It changes under the lock of the list.
///
/// ```text
///           keep                   joined, or detached
///   Runs ────────> Returned ─────────────────────────────> Kept
///   │ ^                                                     │ │
///   │ └───────────────────────── take ──────────────────────┘ │ dismiss
///   └─────────────> Gone <─────────────────── Dismissed <─────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// A thread of the program runs there.
    Runs,
    /// The thread has returned, and was not joined.
    Returned,
    /// It waits for another thread.
    Kept,
    /// It is not wanted any more.
    Dismissed,
    /// It ends as any thread of the C library does.
    Gone,
}

/// A [`Stage`] that waiters read.
pub(crate) struct StageWord(AtomicU8);

impl StageWord {
    pub(crate) fn new(stage: Stage) -> Self {
        StageWord(AtomicU8::new(stage as u8))
    }

    /// Returns the stage. All writes before it are known to the caller.
    pub(crate) fn get(&self) -> Stage {
        const ALL: [Stage; 5] =
            [Stage::Runs, Stage::Returned, Stage::Kept, Stage::Dismissed, Stage::Gone];
        // Acquire: pairs with the Release in `set`.
        ALL[usize::from(self.0.load(Ordering::Acquire))]
    }

    pub(crate) fn set(&self, stage: Stage) {
        // Release: pairs with the Acquire in `get`.
        self.0.store(stage as u8, Ordering::Release);
    }
}

/// The properties that all threads at one home share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Bytes of the stack and of its guard.
    pub(crate) stack: usize,
    pub(crate) guard: usize,
    /// The number of changes of the initial thread's kernel thread before the home was made: a new
    /// thread inherits them.
    pub(crate) heritage: u32,
}
