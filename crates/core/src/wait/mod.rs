//! The wait queue: the waiters of one object, first come first served.
//!
//! It serves pinned fibers, migratable fibers and kernel threads alike: it hands out a copy of the
//! waiter's `W`, and waking is the caller's job. README.md beside this file has the states, the
//! steps and the proof.

mod node;

pub use node::{Node, NodeState};

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::{self, NonNull};

use crate::atomic::{AtomicPtr, AtomicU32, Ordering, const_fn, fence, unless_weakened};
use crate::circle;
use crate::list::Unlinked;
use crate::lock::{Contender, Held, HeldBy, QueueLock};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The waiters of one object, in 16 bytes that include the object's own word.
#[repr(C)]
pub struct WaitQueue<W> {
    /// The oldest node; its predecessor in the circle is the youngest. Stored under the lock,
    /// loaded by wakers without it.
    oldest: AtomicPtr<Node<W>>,
    lock: QueueLock,
    word: AtomicU32,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<WaitQueue<usize>>() == 16);

// SAFETY: nodes are touched under the lock only, except for their state, which is atomic; a `W` is
// copied from the waiting thread to the waking thread.
unsafe impl<W: Copy + Send> Send for WaitQueue<W> {}
// SAFETY: as for Send.
unsafe impl<W: Copy + Send> Sync for WaitQueue<W> {}

// No change of the links can unwind.
impl<W> UnwindSafe for WaitQueue<W> {}
impl<W> RefUnwindSafe for WaitQueue<W> {}

impl<W: Copy> WaitQueue<W> {
    const_fn! {
        /// Creates an empty queue, with the object's word at `word`.
        pub const fn new(word: u32) -> Self {
            Self {
                oldest: AtomicPtr::new(ptr::null_mut()),
                lock: QueueLock::new(),
                word: AtomicU32::new(word),
            }
        }
    }

    /// Returns the object's own word (locked or not, permits), which the queue leaves alone. It
    /// lies here because the lock leaves four bytes.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Takes the queue lock, for several changes that belong together.
    pub fn lock(&self, by: &impl Contender) -> Locked<'_, W> {
        Locked { queue: self, _held: self.lock.lock_unnamed(by) }
    }

    /// Takes the queue lock if it is free.
    #[inline(always)]
    pub fn try_lock(&self) -> Result<Locked<'_, W>, HeldBy> {
        self.lock.try_lock_unnamed().map(|held| Locked { queue: self, _held: held })
    }

    /// Takes the queue lock, for one change that a contender may wait for on the spot.
    pub fn lock_briefly(&self, by: &impl Contender) -> Locked<'_, W> {
        Locked { queue: self, _held: self.lock.lock_briefly(by) }
    }

    /// Takes the queue lock if it is free, for one change that a contender may wait for on the
    /// spot.
    #[inline(always)]
    pub fn try_lock_briefly(&self) -> Result<Locked<'_, W>, HeldBy> {
        self.lock.try_lock_briefly().map(|held| Locked { queue: self, _held: held })
    }

    /// Adds `node` as the youngest. The caller then checks once more that it has to wait.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`].
    pub unsafe fn enqueue(&self, by: &impl Contender, node: NonNull<Node<W>>) {
        let mut locked = self.lock(by);
        // SAFETY: passed on to the caller.
        unsafe { locked.enqueue(node) };
        // Pairs with the fence in `has_waiters`.
        fence(Ordering::SeqCst);
    }

    /// Returns true if the queue is empty. For a caller that is ordered behind the enqueuing of
    /// earlier waiters by other means.
    pub fn is_empty(&self) -> bool {
        self.oldest.load(Ordering::Relaxed).is_null()
    }

    /// Returns true if there is a waiter. For a waker that has changed the object and holds no
    /// lock.
    pub fn has_waiters(&self) -> bool {
        if !cfg!(weaken = "wait-fence") {
            // Pairs with the fence in `enqueue`: either this load sees the node, or the waiter's
            // second check sees the change.
            fence(Ordering::SeqCst);
        }
        !self.oldest.load(Ordering::Relaxed).is_null()
    }

    /// Returns true if there is a waiter, without the fence of [`has_waiters`](Self::has_waiters):
    /// for a waker that has changed the object by a read-modify-write of order `SeqCst`.
    #[inline]
    pub fn has_waiters_after_rmw(&self) -> bool {
        if cfg!(loom) && !cfg!(weaken = "wait-rmw") {
            // loom takes `SeqCst` accesses for weaker accesses.
            fence(Ordering::SeqCst);
        }
        // SeqCst: as the change, which so comes before it in the single total order. Pairs with the
        // fence in `enqueue`, as in `has_waiters`.
        !self.oldest.load(Ordering::SeqCst).is_null()
    }

    /// Claims the oldest node and returns its waiter, which the caller wakes exactly once. The
    /// waiter reads `note` in its node.
    pub fn claim_first(&self, by: &impl Contender, note: u8) -> Option<W> {
        self.lock(by).claim_first(note)
    }

    /// Ends the wait of `node` for another reason than a wake: timeout or cancel.
    ///
    /// [`Unlinked::AlreadyGone`]: a waker has claimed the node and wakes the waiter once, so this
    /// caller does not. If the waiter then leaves without taking the object, it must call
    /// [`WaitQueue::pass_on`].
    ///
    /// # Safety
    ///
    /// As for [`Locked::unlink`].
    pub unsafe fn unlink(&self, by: &impl Contender, node: NonNull<Node<W>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.lock(by).unlink(node) }
    }

    /// Passes a wake that the caller was claimed for, but has no use for, to the next in line. The
    /// caller wakes that waiter.
    #[must_use = "the waiter that takes over is to be woken"]
    pub fn pass_on(&self, by: &impl Contender, note: u8) -> Option<W> {
        self.claim_first(by, note)
    }

    /// Makes loom fail unless the caller may reuse the queue's memory.
    #[cfg(all(test, loom))]
    pub(crate) fn reclaim(&self) {
        self.lock.reclaim();
        // SAFETY: loom checks that nothing is stored at the same time.
        let _ = unsafe { (self.oldest.unsync_load(), self.word.unsync_load()) };
    }
}

/// Nodes that were taken out of a queue, oldest first. The iterator claims each node, with the note
/// 0, as it returns the waiter, which the caller then wakes exactly once.
///
/// It must be used up: until then the remaining waiters wait, and neither timeout nor cancel ends
/// their waits.
#[must_use = "the waiters are to be woken"]
pub struct Taken<W> {
    /// Any node of a circle that no other thread changes, as its nodes are moved.
    first: Option<NonNull<Node<W>>>,
}

impl<W> Taken<W> {
    /// No waiter.
    pub const NONE: Self = Taken { first: None };
}

impl<W: Copy> Iterator for Taken<W> {
    type Item = W;

    fn next(&mut self) -> Option<W> {
        let node = self.first?;
        // SAFETY: a moved node is alive until it is claimed, which is the last access to it; so are
        // the nodes that it is linked to, and the links are this object's alone.
        unsafe {
            self.first = circle::remove(node);
            let waiter = node.as_ref().waiter();
            Node::set_claimed(node, 0);
            Some(waiter)
        }
    }
}

/// A locked wait queue.
#[must_use]
pub struct Locked<'q, W> {
    queue: &'q WaitQueue<W>,
    _held: Held<'q>,
}

impl<W: Copy> Locked<'_, W> {
    /// Returns true if there is no waiter.
    pub fn is_empty(&self) -> bool {
        self.oldest().is_none()
    }

    /// Returns the waiter that is first in line.
    pub fn first(&self) -> Option<W> {
        self.first_node().map(|(waiter, _)| waiter)
    }

    pub(crate) fn first_node(&self) -> Option<(W, NonNull<Node<W>>)> {
        // SAFETY: a listed node is alive: the contract of `enqueue`.
        self.oldest().map(|node| (unsafe { node.as_ref() }.waiter(), node))
    }

    /// Returns true if a queued waiter `suits`.
    pub fn any(&self, mut suits: impl FnMut(W) -> bool) -> bool {
        let Some(first) = self.oldest() else { return false };
        let mut node = first;
        loop {
            // SAFETY: listed nodes are alive, and the lock is held.
            unsafe {
                if suits(node.as_ref().waiter()) {
                    return true;
                }
                node = circle::next(node);
            }
            if node == first {
                return false;
            }
        }
    }

    /// Adds `node` as the youngest. The waiter certainly has to wait: its condition changes under
    /// this lock, or by an exchange that knows of the queue.
    ///
    /// # Safety
    ///
    /// `node` is in no queue. It stays alive and in place until it was unlinked by
    /// [`Unlinked::Mine`] or its state is seen to be [`NodeState::Claimed`].
    pub unsafe fn enqueue(&mut self, node: NonNull<Node<W>>) {
        // SAFETY: passed on to the caller.
        unsafe { self.insert(node) };
        if self.oldest().is_none() {
            self.set_oldest(Some(node));
        }
    }

    /// Adds `node` as the oldest, for a waiter that was woken and has to wait again. Otherwise as
    /// [`enqueue`](Self::enqueue).
    ///
    /// # Safety
    ///
    /// As for [`enqueue`](Self::enqueue).
    pub unsafe fn enqueue_first(&mut self, node: NonNull<Node<W>>) {
        // SAFETY: passed on to the caller.
        unsafe { self.insert(node) };
        // The list is a circle: the node before the oldest becomes the oldest.
        self.set_oldest(Some(node));
    }

    /// # Safety
    ///
    /// As for [`enqueue`](Self::enqueue).
    unsafe fn insert(&mut self, node: NonNull<Node<W>>) {
        // SAFETY: the node is alive and in no list, by this function's contract, and the lock is
        // held.
        unsafe {
            node.as_ref().set_queued();
            circle::insert(self.oldest(), node);
        }
    }

    /// Claims the oldest node and returns its waiter, which the caller wakes exactly once. The
    /// waiter reads `note` in its node.
    pub fn claim_first(&mut self, note: u8) -> Option<W> {
        self.claim_first_that(note, |_| true)
    }

    /// Claims the oldest node that `takes` accepts, as [`claim_first`](Self::claim_first) does; all
    /// other nodes stay.
    pub fn claim_first_that(&mut self, note: u8, mut takes: impl FnMut(W) -> bool) -> Option<W> {
        let first = self.oldest()?;
        let mut node = first;
        // SAFETY: a listed node is alive until it is claimed, which is the last access to it.
        unsafe {
            while !takes(node.as_ref().waiter()) {
                node = circle::next(node);
                if node == first {
                    return None;
                }
            }
            let waiter = node.as_ref().waiter();
            self.remove(node);
            Node::set_claimed(node, note);
            Some(waiter)
        }
    }

    /// Takes the oldest node out, for the queue of another object. There it is treated as if its
    /// waiter had enqueued it. From here on [`unlink`](Self::unlink) finds it gone: its waiter has
    /// to wait until it is claimed there.
    pub fn take_first(&mut self) -> Option<NonNull<Node<W>>> {
        let node = self.oldest()?;
        // SAFETY: a listed node is alive.
        unsafe {
            self.remove(node);
            node.as_ref().set_moved();
        }
        Some(node)
    }

    /// Claims `node`, which is in no queue; returns its waiter, which the caller wakes exactly
    /// once.
    ///
    /// # Safety
    ///
    /// `node` was taken by [`take_first`](Self::take_first), and has been in no queue since.
    pub unsafe fn claim_taken(&mut self, node: NonNull<Node<W>>, note: u8) -> W {
        // SAFETY: a moved node is alive until it is claimed, which is the last access to it.
        unsafe {
            let waiter = node.as_ref().waiter();
            Node::set_claimed(node, note);
            waiter
        }
    }

    /// Takes the oldest node out, for its waiter to be claimed once the lock is free. From here on
    /// [`unlink`](Self::unlink) finds it gone.
    pub fn take_one(&mut self) -> Taken<W> {
        let first = self.take_first();
        // SAFETY: alive, as it was listed, and in no list since.
        first.inspect(|&node| unsafe { circle::insert(None, node) });
        Taken { first }
    }

    /// Takes all nodes out, as [`take_one`](Self::take_one) does one. Waiters that enqueue
    /// themselves from here on are not included.
    pub fn take_all(&mut self) -> Taken<W> {
        let first = self.oldest();
        if let Some(mut node) = first.filter(|_| !cfg!(weaken = "wait-taken")) {
            // SAFETY: listed nodes are alive, and lead to each other until they are back at the
            // first.
            unsafe {
                node.as_ref().set_moved();
                while Some(circle::next(node)) != first {
                    node = circle::next(node);
                    node.as_ref().set_moved();
                }
            }
        }
        self.set_oldest(None);
        Taken { first }
    }

    /// Takes `node` out, unless a waker has claimed it.
    ///
    /// # Safety
    ///
    /// `node` is alive, and the queue that it was last added to is this one.
    pub unsafe fn unlink(&mut self, node: NonNull<Node<W>>) -> Unlinked {
        // SAFETY: alive by this function's contract; listed in this queue if its state says so,
        // which changes under this lock only.
        unsafe {
            if node.as_ref().state() != NodeState::Queued {
                return Unlinked::AlreadyGone;
            }
            self.remove(node);
            node.as_ref().set_out();
        }
        Unlinked::Mine
    }

    /// # Safety
    ///
    /// `node` is listed in this queue.
    unsafe fn remove(&mut self, node: NonNull<Node<W>>) {
        // SAFETY: listed, so alive, as all listed nodes are; the lock is held.
        let next = unsafe { circle::remove(node) };
        if self.oldest() == Some(node) {
            self.set_oldest(next);
        }
    }

    fn oldest(&self) -> Option<NonNull<Node<W>>> {
        NonNull::new(self.queue.oldest.load(Ordering::Relaxed))
    }

    fn set_oldest(&mut self, node: Option<NonNull<Node<W>>>) {
        let node = node.map_or(ptr::null_mut(), NonNull::as_ptr);
        // Holders of the lock are ordered by it; for loads without the lock the fences in `enqueue`
        // and `has_waiters` order it. Release: pairs with a fence behind a load that finds no
        // waiter, for writes before the last one has left.
        self.queue.oldest.store(node, unless_weakened!("wait-leave", Ordering::Release));
    }
}
