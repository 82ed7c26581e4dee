//! Waiters for a condition that a mutex guards: each waits until it is notified and has the mutex
//! again.
//!
//! README.md beside this file has the protocol. Waiting and waking are the caller's job.

use std::ptr::{self, NonNull};

use crate::atomic::{AtomicPtr, Ordering, const_fn};
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::mutex::{RawMutex, note};
use crate::wait::{Locked, Node, WaitQueue};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The waiters for one condition, 24 bytes.
///
/// Budget: one load to notify without waiters.
pub struct RawCondvar<W> {
    queue: WaitQueue<W>,
    /// The mutex of the waiters. Stored under the lock of an empty queue, loaded under the lock.
    mutex: AtomicPtr<RawMutex<W>>,
}

/// The error of a wait with one mutex while other waiters wait with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherMutex;

impl<W: Copy> RawCondvar<W> {
    const_fn! {
        /// Creates a condition without waiters.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self { queue: WaitQueue::new(0), mutex: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// Begins a wait: puts `node` into the queue, then frees `mutex`, which the caller holds, or
    /// hands it off to `next`. `runs_next` is as for [`RawMutex::release_and_leave`]. Returns the
    /// waiter to wake, exactly once.
    ///
    /// Once `node` is claimed, its note says how its waiter gets `mutex` again ([`note`]).
    ///
    /// # Errors
    ///
    /// If there are waiters with another mutex. Nothing has changed then.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`](crate::wait::Locked::enqueue); the queue is left by
    /// [`leave`](Self::leave). `mutex` stays alive and in place until the wait was left by
    /// [`Unlinked::Mine`], or the waiter was claimed and woken. `next` is as for
    /// [`RawMutex::hand_off`], and has waited with `mutex`.
    #[must_use = "the waiter is to be woken"]
    #[inline]
    pub unsafe fn wait(
        &self,
        by: &impl Contender,
        mutex: &RawMutex<W>,
        node: NonNull<Node<W>>,
        next: Option<NonNull<Node<W>>>,
        runs_next: impl FnOnce(W) -> bool,
    ) -> Result<Option<W>, OtherMutex> {
        if cfg!(weaken = "condvar-wait") {
            let first = mutex.release_and_leave(by, runs_next);
            // SAFETY: passed on to the caller.
            return unsafe { self.enqueue(by, mutex, node) }.map(|()| first);
        }
        // SAFETY: passed on to the caller.
        unsafe { self.enqueue(by, mutex, node)? };
        // SAFETY: passed on to the caller.
        let inherited = next.is_some_and(|next| unsafe { mutex.hand_off(next) });
        if inherited && !cfg!(weaken = "condvar-hand-off") {
            return Ok(None);
        }
        Ok(mutex.release_and_leave(by, runs_next))
    }

    /// # Safety
    ///
    /// As for [`wait`](Self::wait).
    unsafe fn enqueue(
        &self,
        by: &impl Contender,
        mutex: &RawMutex<W>,
        node: NonNull<Node<W>>,
    ) -> Result<(), OtherMutex> {
        let mut queue = self.queue.lock(by);
        if queue.is_empty() {
            // Relaxed, as the loads: the queue lock orders them.
            self.mutex.store(ptr::from_ref(mutex).cast_mut(), Ordering::Relaxed);
        }
        if !ptr::eq(self.mutex.load(Ordering::Relaxed), mutex) {
            return Err(OtherMutex);
        }
        // SAFETY: passed on to the caller.
        unsafe { queue.enqueue(node) };
        Ok(())
    }

    /// Returns true if there is no waiter that could have seen the condition before the caller
    /// changed it: the fast path of a notifier.
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: a waiter has freed the mutex since it was queued, and the notifier has held it
        // since.
        self.queue.is_empty()
    }

    /// Notifies the `most` longest waiters, which go on one after the other as their mutex allows.
    /// Returns the waiter to wake, exactly once: no more than one can get a mutex that is free.
    ///
    /// Calls `notified` with each waiter, and the mutex that it waits for now, before it can go on.
    #[must_use = "the waiter is to be woken"]
    pub fn notify(
        &self,
        by: &impl Contender,
        most: usize,
        notified: impl FnMut(W, &RawMutex<W>),
    ) -> Option<W> {
        self.notify_locked(self.queue.lock(by), by, most, notified)
    }

    /// Notifies one waiter, as [`notify`](Self::notify) does. It is woken at once if `runs_next`
    /// says of it and its node that it runs once the caller suspends: by then the caller will have
    /// freed the mutex, or [hands it off](RawMutex::hand_off).
    #[must_use = "the waiter is to be woken"]
    pub fn notify_one(
        &self,
        by: &impl Contender,
        runs_next: impl FnOnce(W, NonNull<Node<W>>, &RawMutex<W>) -> bool,
        notified: impl FnMut(W, &RawMutex<W>),
    ) -> Option<W> {
        let mut queue = self.queue.lock(by);
        let (first, node) = queue.first_node()?;
        // SAFETY: alive, as its waiter has neither left nor been woken.
        let mutex = unsafe { &*self.mutex.load(Ordering::Relaxed) };
        if runs_next(first, node, mutex) {
            return queue.claim_first(note::NOTIFIED);
        }
        self.notify_locked(queue, by, 1, notified)
    }

    /// Notifies under the lock, which is held to the end: new waiters are not included.
    fn notify_locked(
        &self,
        mut queue: Locked<'_, W>,
        by: &impl Contender,
        most: usize,
        mut notified: impl FnMut(W, &RawMutex<W>),
    ) -> Option<W> {
        let mutex = self.mutex.load(Ordering::Relaxed);
        let mut woken = None;
        for _ in 0..most {
            let Some(node) = queue.take_first() else { break };
            // SAFETY: taken just now, so it is alive, and no other thread puts it anywhere. The
            // mutex is alive, as its waiter has neither left nor been woken.
            let claimed = unsafe {
                notified(node.as_ref().waiter(), &*mutex);
                (*mutex).adopt(by, node)
            };
            debug_assert!(woken.is_none() || claimed.is_none(), "two on their way to one mutex");
            woken = woken.or(claimed);
        }
        woken
    }

    /// Takes `node` out of the queue, unless it was notified before.
    ///
    /// [`Unlinked::AlreadyGone`]: it waits for the mutex, or its waiter is woken already. The
    /// waiter has to wait until it is woken, and then to take the mutex, or to
    /// [`give_way`](Self::give_way).
    ///
    /// # Safety
    ///
    /// `node` is alive, and was given to this condition's [`wait`](Self::wait) last.
    pub unsafe fn leave(&self, by: &impl Contender, node: NonNull<Node<W>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.queue.unlink(by, node) }
    }

    /// Gives up the notification and `mutex` on behalf of a waiter that was claimed with `note`,
    /// waited with `mutex`, and wants neither any more. Returns the waiters to wake instead.
    #[must_use = "the waiters are to be woken"]
    pub fn give_way(&self, by: &impl Contender, mutex: &RawMutex<W>, note: u8) -> [Option<W>; 2] {
        let next = if note == note::NOTIFIED { None } else { mutex.give_way(by, note) };
        if self.is_empty() || cfg!(weaken = "condvar-pass-on") {
            return [next, None];
        }
        [next, self.notify(by, 1, |_, _| ())]
    }
}
