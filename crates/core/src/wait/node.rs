//! One wait, as a node of a queue.

use std::ptr::NonNull;

use crate::atomic::{AtomicU32, Ordering, unless_weakened};
use crate::circle::{Circular, Links};

/// The place of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// Outside any queue: not added yet, or unlinked by a timeout or cancel.
    Out,
    /// The node is in the queue that it was added to.
    Queued,
    /// Moved to the queue of another object, or on its way there.
    Moved,
    /// A waker took it out, left this note, and wakes the waiter once.
    Claimed(u8),
}

/// One waiter's node in a queue. It lies in memory of the waiter, usually in its stack frame.
pub struct Node<W> {
    /// Touched under the queue lock, or by the waiter while the node is in no queue.
    links: Links<Self>,
    /// Stored under the queue lock; loaded by the waiter at any time.
    ///
    /// ```text
    /// 0 = Out, 1 = Queued, 2 = Moved, 3 + note = Claimed
    /// ```
    state: AtomicU32,
    /// Written by the waiter before the node is queued.
    waiter: W,
}

// SAFETY: only `waiter` leads anywhere, and a copy of it goes to the waker.
unsafe impl<W: Copy + Send> Send for Node<W> {}
// SAFETY: the links are touched under the queue lock, the state is atomic, the waiter is only
// copied.
unsafe impl<W: Copy + Send> Sync for Node<W> {}

// SAFETY: always the same field.
unsafe impl<W> Circular for Node<W> {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl<W: Copy> Node<W> {
    const OUT: u32 = 0;
    const QUEUED: u32 = 1;
    const MOVED: u32 = 2;
    const CLAIMED: u32 = 3;

    /// Creates a node of `waiter`, in no queue.
    pub fn new(waiter: W) -> Self {
        Self { links: Links::new(), state: AtomicU32::new(Self::OUT), waiter }
    }

    /// Returns the place of the node. A waiter that sees it claimed owns it again, and sees the
    /// writes of the waker.
    pub fn state(&self) -> NodeState {
        // Acquire: pairs with the Release in `set_claimed`.
        match self.state.load(Ordering::Acquire) {
            Self::OUT => NodeState::Out,
            Self::QUEUED => NodeState::Queued,
            Self::MOVED => NodeState::Moved,
            claimed => NodeState::Claimed((claimed - Self::CLAIMED) as u8),
        }
    }

    /// Changes the note that the waiter of `node` will read.
    ///
    /// # Safety
    ///
    /// `node` is alive and claimed, and its waiter reads the note after this call, for instance
    /// because it runs on this very thread.
    pub(crate) unsafe fn set_note(node: NonNull<Self>, note: u8) {
        // SAFETY: passed on to the caller.
        unsafe { Self::set_claimed(node, note) };
    }

    /// Returns the waiter that the node stands for.
    pub fn waiter(&self) -> W {
        self.waiter
    }

    /// A moved node stays marked: its waiter asks the queue that it was taken from.
    pub(super) fn set_queued(&self) {
        debug_assert_ne!(self.state(), NodeState::Queued, "a node is in one queue at a time");
        if self.state() != NodeState::Moved {
            self.state.store(Self::QUEUED, Ordering::Relaxed);
        }
    }

    pub(super) fn set_moved(&self) {
        self.state.store(Self::MOVED, Ordering::Relaxed);
    }

    pub(super) fn set_out(&self) {
        self.state.store(Self::OUT, Ordering::Relaxed);
    }

    /// Gives the node back to its waiter, which may free it before this returns: hence no `&self`,
    /// which would have to be valid for longer.
    ///
    /// # Safety
    ///
    /// `node` is alive.
    pub(super) unsafe fn set_claimed(node: NonNull<Self>, note: u8) {
        // Release: pairs with the Acquire in `state`. From here on the node is the waiter's.
        let ordering = unless_weakened!("wait-claim", Ordering::Release);
        // SAFETY: alive by this function's contract; the reference is to an atomic alone.
        unsafe { &(*node.as_ptr()).state }.store(Self::CLAIMED + u32::from(note), ordering);
    }
}
