//! One wait, as it stands in a queue.

use std::ptr::NonNull;

use crate::circle::{Circular, Links};
use crate::sync::{AtomicU32, Ordering, unless_weakened};

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// In no queue: not added yet, or unlinked by a timeout or cancel.
    Out,
    /// In the queue that it was added to.
    Queued,
    /// Moved to the queue of another object, or on its way there.
    Moved,
    /// A waker took it out, left this note, and wakes the waiter once.
    Claimed(u8),
}

/// One waiter's place in a queue; lives where the waiter waits, usually in its stack frame.
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
// SAFETY: the links are touched under the queue lock, the state is atomic, the waiter is only copied.
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

    /// A node of `waiter`, in no queue.
    pub fn new(waiter: W) -> Self {
        Self { links: Links::new(), state: AtomicU32::new(Self::OUT), waiter }
    }

    /// Where the node stands. Whoever sees it claimed owns it again, and sees what the waker did.
    pub fn state(&self) -> NodeState {
        // Acquire pairs with the Release in `set_claimed`.
        match self.state.load(Ordering::Acquire) {
            Self::OUT => NodeState::Out,
            Self::QUEUED => NodeState::Queued,
            Self::MOVED => NodeState::Moved,
            claimed => NodeState::Claimed((claimed - Self::CLAIMED) as u8),
        }
    }

    /// Changes what the waiter of `node` will read in it.
    ///
    /// # Safety
    ///
    /// `node` is alive and claimed, and its waiter comes to read it behind this call, as by running on this
    /// very thread.
    pub(crate) unsafe fn set_note(node: NonNull<Self>, note: u8) {
        // SAFETY: passed on to the caller.
        unsafe { Self::set_claimed(node, note) };
    }

    /// Whom the node stands for.
    pub fn waiter(&self) -> W {
        self.waiter
    }

    /// A moved node stays one: it is the queue that it was taken from which its waiter asks.
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

    /// Gives the node back to its waiter, who may free it before this returns: hence no `&self`,
    /// which would have to be valid for longer.
    ///
    /// # Safety
    ///
    /// `node` is alive.
    pub(super) unsafe fn set_claimed(node: NonNull<Self>, note: u8) {
        // Pairs with the Acquire in `state`: from here on the node is the waiter's.
        let ordering = unless_weakened!("wait-claim", Ordering::Release);
        // SAFETY: alive by this function's contract; the reference is to an atomic alone.
        unsafe { &(*node.as_ptr()).state }.store(Self::CLAIMED + u32::from(note), ordering);
    }
}
