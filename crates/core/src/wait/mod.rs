//! The wait queue: who waits for an object, first come first served.
//!
//! It serves pinned fibers, movers and kernel threads alike: it hands out a copy of the waiter's `W`,
//! and waking is the caller's job. README.md beside this file has the states, the steps and the proof.

mod node;

pub use node::{Node, NodeState};

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::{self, NonNull};

use crate::circle;
use crate::list::Unlinked;
use crate::lock::{Contender, Held, QueueLock};
use crate::sync::{AtomicPtr, AtomicU32, Ordering, const_fn, fence};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

/// The waiters of one object, in 16 bytes that include the object's own word.
#[repr(C)]
pub struct WaitQueue<W> {
    /// The oldest node, whose predecessor in the circle is the youngest. Stored under the lock,
    /// loaded by wakers without it.
    oldest: AtomicPtr<Node<W>>,
    lock: QueueLock,
    word: AtomicU32,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<WaitQueue<usize>>() == 16);

// SAFETY: nodes are touched under the lock only, but for their state, which is atomic; a `W` is
// copied from the thread that waits to the thread that wakes.
unsafe impl<W: Copy + Send> Send for WaitQueue<W> {}
// SAFETY: as for Send.
unsafe impl<W: Copy + Send> Sync for WaitQueue<W> {}

// Nobody unwinds out of a change of the links.
impl<W> UnwindSafe for WaitQueue<W> {}
impl<W> RefUnwindSafe for WaitQueue<W> {}

impl<W: Copy> WaitQueue<W> {
    const_fn! {
        /// An empty queue, with the object's word at `word`.
        pub const fn new(word: u32) -> Self {
            Self {
                oldest: AtomicPtr::new(ptr::null_mut()),
                lock: QueueLock::new(),
                word: AtomicU32::new(word),
            }
        }
    }

    /// The object's own word (locked or not, permits), which the queue leaves alone. It lies here
    /// because the lock leaves four bytes.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Takes the queue lock, for changes that belong together.
    pub fn lock(&self, by: &impl Contender) -> Locked<'_, W> {
        Locked { queue: self, _held: self.lock.lock(by) }
    }

    /// Adds `node` as the youngest. The caller then checks once more whether it has to wait.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`].
    pub unsafe fn enqueue(&self, by: &impl Contender, node: NonNull<Node<W>>) {
        let mut locked = self.lock(by);
        // SAFETY: passed on to the caller.
        unsafe { locked.enqueue(node) };
        // Pairs with the fence in `anyone_waiting`.
        fence(Ordering::SeqCst);
    }

    /// Whether nobody waits, in the eyes of who comes later than those who waited: their enqueuing
    /// happened before this call, by other means.
    pub fn is_empty(&self) -> bool {
        self.oldest.load(Ordering::Relaxed).is_null()
    }

    /// Whether somebody waits, for a waker that has changed the object and holds no lock.
    pub fn anyone_waiting(&self) -> bool {
        if !cfg!(weaken = "wait-fence") {
            // Pairs with the fence in `enqueue`: either this load sees the node or the
            // waiter's second check sees the change.
            fence(Ordering::SeqCst);
        }
        !self.oldest.load(Ordering::Relaxed).is_null()
    }

    /// Claims the oldest node and returns its waiter, whom the caller wakes exactly once. `note` is
    /// what the waiter reads in its node.
    pub fn claim_first(&self, by: &impl Contender, note: u8) -> Option<W> {
        self.lock(by).claim_first(note)
    }

    /// Ends the wait of `node` for another reason than a wake: timeout or cancel.
    ///
    /// [`Unlinked::AlreadyGone`]: a waker claimed it and wakes the waiter once, so this caller does
    /// not. Where the waiter leaves without what it was woken for, [`WaitQueue::pass_on`] is due.
    ///
    /// # Safety
    ///
    /// As for [`Locked::unlink`].
    pub unsafe fn unlink(&self, by: &impl Contender, node: NonNull<Node<W>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.lock(by).unlink(node) }
    }

    /// Gives a wake that the caller was claimed for, but has no use of, to the next in line, whom
    /// the caller wakes.
    #[must_use = "the waiter that takes over is to be woken"]
    pub fn pass_on(&self, by: &impl Contender, note: u8) -> Option<W> {
        self.claim_first(by, note)
    }

    /// Lets loom complain unless the caller may reuse the queue's memory.
    #[cfg(all(test, loom))]
    pub(crate) fn reclaim(&self) {
        self.lock.reclaim();
        // SAFETY: loom checks that nothing is stored at the same time.
        let _ = unsafe { (self.oldest.unsync_load(), self.word.unsync_load()) };
    }
}

/// Nodes that were taken out of a queue, oldest first. Each is claimed, with the note 0, as its
/// waiter is asked for, whom the caller then wakes exactly once.
///
/// To be used up: until then those who are left in here wait, whatever else would end their waits.
#[must_use = "the waiters are to be woken"]
pub struct Taken<W> {
    /// Any node of a circle that nobody else changes, as its nodes are moved.
    first: Option<NonNull<Node<W>>>,
}

impl<W> Taken<W> {
    /// Nobody.
    pub const NONE: Self = Taken { first: None };
}

impl<W: Copy> Iterator for Taken<W> {
    type Item = W;

    fn next(&mut self) -> Option<W> {
        let node = self.first?;
        // SAFETY: a moved node is alive until it is claimed, which is the last that is done to it; so
        // are those that it is linked to, and the links are this object's alone.
        unsafe {
            self.first = circle::remove(node);
            let waiter = node.as_ref().waiter();
            Node::set_claimed(node, 0);
            Some(waiter)
        }
    }
}

/// A wait queue whose lock is held.
#[must_use]
pub struct Locked<'q, W> {
    queue: &'q WaitQueue<W>,
    _held: Held<'q>,
}

impl<W: Copy> Locked<'_, W> {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.oldest().is_none()
    }

    /// The waiter that is first in line.
    pub fn first(&self) -> Option<W> {
        self.first_node().map(|(waiter, _)| waiter)
    }

    /// The waiter that is first in line, and his node.
    pub(crate) fn first_node(&self) -> Option<(W, NonNull<Node<W>>)> {
        // SAFETY: a listed node is alive: the contract of `enqueue`.
        self.oldest().map(|node| (unsafe { node.as_ref() }.waiter(), node))
    }

    /// Whether somebody is queued whose waiter `suits`.
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

    /// Adds `node` as the youngest. That the waiter has to wait is certain, as what it waits for
    /// changes under this lock, or by an exchange that knows of the queue.
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

    /// Adds `node` as the oldest, for a waiter that was woken and has to wait again. As
    /// [`enqueue`](Self::enqueue) otherwise.
    ///
    /// # Safety
    ///
    /// As for [`enqueue`](Self::enqueue).
    pub unsafe fn enqueue_first(&mut self, node: NonNull<Node<W>>) {
        // SAFETY: passed on to the caller.
        unsafe { self.insert(node) };
        // The list is a circle: who is last before the oldest becomes it.
        self.set_oldest(Some(node));
    }

    /// # Safety
    ///
    /// As for [`enqueue`](Self::enqueue).
    unsafe fn insert(&mut self, node: NonNull<Node<W>>) {
        // SAFETY: the node is alive and in no list, by this function's contract, and the lock is held.
        unsafe {
            node.as_ref().set_queued();
            circle::insert(self.oldest(), node);
        }
    }

    /// Claims the oldest node and returns its waiter, whom the caller wakes exactly once. `note` is
    /// what the waiter reads in its node.
    pub fn claim_first(&mut self, note: u8) -> Option<W> {
        self.claim_first_that(note, |_| true)
    }

    /// As [`claim_first`](Self::claim_first), of those whose waiter `takes` it; the others stay.
    pub fn claim_first_that(&mut self, note: u8, mut takes: impl FnMut(W) -> bool) -> Option<W> {
        let first = self.oldest()?;
        let mut node = first;
        // SAFETY: a listed node is alive until it is claimed, which is the last that is done to it.
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

    /// Takes the oldest node out, for the queue of another object, where it is as if its waiter had
    /// enqueued it. From here on [`unlink`](Self::unlink) finds it gone: its waiter is bound to wait
    /// until it is claimed there.
    pub fn take_first(&mut self) -> Option<NonNull<Node<W>>> {
        let node = self.oldest()?;
        // SAFETY: a listed node is alive.
        unsafe {
            self.remove(node);
            node.as_ref().set_moved();
        }
        Some(node)
    }

    /// Claims `node`, which is in no queue; returns its waiter, whom the caller wakes exactly once.
    ///
    /// # Safety
    ///
    /// `node` was taken by [`take_first`](Self::take_first), and is in no queue since.
    pub unsafe fn claim_taken(&mut self, node: NonNull<Node<W>>, note: u8) -> W {
        // SAFETY: a moved node is alive until it is claimed, which is the last that is done to it.
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

    /// Takes all nodes out, as [`take_one`](Self::take_one) does one: who enqueues himself from here
    /// on is not meant.
    pub fn take_all(&mut self) -> Taken<W> {
        let first = self.oldest();
        if let Some(mut node) = first.filter(|_| !cfg!(weaken = "wait-taken")) {
            // SAFETY: listed nodes are alive, and lead to each other until they are back at the first.
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

    /// Takes `node` out, unless a waker claimed it before.
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
        // SAFETY: listed, so alive as all that are listed; the lock is held.
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
        // Relaxed: under the lock for those who hold it, and fences order it for those who do not.
        self.queue.oldest.store(node, Ordering::Relaxed);
    }
}
