//! A worker's queue of runnable fibers that other workers may steal: a bounded ring, first in first
//! out.
//!
//! After the run queue of Go's scheduler (`runqput`, `runqget`, `runqgrab` in its `proc.go`), with
//! the `Local` / `Steal` handles of tokio's. The README beside this file has the steps and the
//! proof.

use std::{array, cell::Cell, marker::PhantomData, ptr, ptr::NonNull};

use crate::{
    atomic::{AtomicPtr, AtomicU64, Ordering::*, spin_loop, unless_weakened},
    list::{Chain, Linked},
};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Number of fibers that a ring holds.
#[cfg(not(loom))]
pub const CAPACITY: usize = 256;
/// Number of fibers that a ring holds; few, so that a model reaches the limit.
#[cfg(loom)]
pub const CAPACITY: usize = 4;

const HALF: u64 = CAPACITY as u64 / 2;

/// The memory of one queue, placed by the caller.
///
/// Positions count up for ever (64 bits do not wrap), so that a position is never seen twice and a
/// compare-exchange on `head` that succeeds proves that nothing moved.
#[repr(C, align(64))]
pub struct StealQueue<T> {
    /// Position of the oldest fiber. Moved forward by compare-exchange, by the owner and by
    /// thieves.
    head: AtomicU64,
    /// Position behind the youngest fiber. Written by the owner only.
    tail: AtomicU64,
    /// Written by the owner only, at positions outside `head..tail`; read by all.
    slots: [AtomicPtr<T>; CAPACITY],
}

impl<T> StealQueue<T> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        let slots = array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        Self { head: AtomicU64::new(0), tail: AtomicU64::new(0), slots }
    }

    /// Returns the owner's handle and one for thieves.
    pub fn split(&mut self) -> (Local<'_, T>, Steal<'_, T>) {
        let ring = &*self;
        // SAFETY: the exclusive borrow lasts as long as both handles, so there is no other owner.
        (unsafe { ring.local() }, ring.steal())
    }

    /// Returns the owner's handle, for a ring that is shared from the start.
    ///
    /// # Safety
    ///
    /// While one thread uses a `Local` of this ring, no other thread uses a `Local` of it.
    pub unsafe fn local(&self) -> Local<'_, T> {
        Local { ring: self, not_sync: PhantomData }
    }

    /// Returns a handle for thieves.
    pub fn steal(&self) -> Steal<'_, T> {
        Steal { ring: self }
    }

    fn slot(&self, position: u64) -> &AtomicPtr<T> {
        &self.slots[position as usize % CAPACITY]
    }
}

impl<T> Default for StealQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A full queue: its older half, then the fiber that found no room, for the injector.
#[must_use = "the fibers are in no queue now"]
pub struct Full<T: Linked>(
    /// The fibers, oldest first.
    pub Chain<T>,
);

/// The owner's end of a [`StealQueue`].
pub struct Local<'q, T> {
    ring: &'q StealQueue<T>,
    not_sync: PhantomData<Cell<()>>,
}

impl<'q, T> Local<'q, T> {
    /// Appends a fiber. Cost: one load of the word that thieves write, one store.
    ///
    /// # Errors
    ///
    /// If the ring is full, hands back its older half and `item`.
    ///
    /// # Safety
    ///
    /// `item` stays alive while it is queued, and its link is in no chain or queue.
    #[inline]
    pub unsafe fn push(&self, item: NonNull<T>) -> Result<(), Full<T>>
    where
        T: Linked,
    {
        let tail = self.tail();
        // Acquire: pairs with the Release of `advance`: a thief has read the slots it took before
        // they are written again.
        let head = self.ring.head.load(Acquire);
        if tail - head < CAPACITY as u64 {
            self.publish(tail, item);
            return Ok(());
        }
        // SAFETY: passed on to the caller.
        unsafe { self.push_slow(item, head) }
    }

    /// # Safety
    ///
    /// As for [`push`](Self::push).
    #[cold]
    unsafe fn push_slow(&self, item: NonNull<T>, head: u64) -> Result<(), Full<T>>
    where
        T: Linked,
    {
        if !self.ring.advance(head, HALF) {
            // A thief took some, so there is room now; only this thread could fill it again.
            self.publish(self.tail(), item);
            return Ok(());
        }
        let mut chain = Chain::new();
        for position in head..head + HALF {
            // Still there: only this thread writes slots.
            if let Some(item) = NonNull::new(self.ring.slot(position).load(Relaxed)) {
                // SAFETY: alive by the contract of its push, and taken out of the ring just now.
                unsafe { chain.push(item) };
            }
        }
        // SAFETY: passed on to the caller.
        unsafe { chain.push(item) };
        Err(Full(chain))
    }

    /// Takes the oldest fiber. Cost: one RMW, on the word that thieves write.
    #[inline]
    pub fn pop(&self) -> Option<NonNull<T>> {
        let tail = self.tail();
        loop {
            let head = self.ring.head.load(Relaxed);
            if head == tail {
                return None;
            }
            let item = self.ring.slot(head).load(Relaxed);
            if self.ring.advance(head, 1) {
                return NonNull::new(item);
            }
        }
    }

    /// Returns the fibers, from the oldest on, as they were queued a moment ago: a thief may have
    /// taken any of them.
    pub fn peek(&self) -> impl Iterator<Item = NonNull<T>> {
        let positions = self.ring.head.load(Relaxed)..self.tail();
        positions.filter_map(|position| NonNull::new(self.ring.slot(position).load(Relaxed)))
    }

    /// Returns the number of queued fibers; thieves may reduce it at any time.
    pub fn len(&self) -> usize {
        (self.tail() - self.ring.head.load(Relaxed)) as usize
    }

    /// Returns true if no fiber is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the thieves' handle of the same ring.
    pub fn steal(&self) -> Steal<'q, T> {
        self.ring.steal()
    }

    fn tail(&self) -> u64 {
        self.ring.tail.load(Relaxed)
    }

    fn publish(&self, tail: u64, item: NonNull<T>) {
        self.ring.slot(tail).store(item.as_ptr(), Relaxed);
        self.publish_tail(tail + 1);
    }

    fn publish_tail(&self, tail: u64) {
        // Release: pairs with the Acquire of `tail` in `Steal::grab` and `Steal::peek`; publishes
        // the slots, and the contents of the fibers.
        self.ring.tail.store(tail, unless_weakened!("queue-publish", Release));
    }
}

impl<T> StealQueue<T> {
    /// Takes `count` positions from `head` on, unless another thread moved it.
    fn advance(&self, head: u64, count: u64) -> bool {
        if cfg!(weaken = "queue-advance") {
            let unmoved = self.head.load(Relaxed) == head;
            self.head.store(head + count, Release);
            return unmoved;
        }
        // Release: pairs with the Acquire of `head` in `push` (slots are read before they are
        // written again) and in `grab`, `peek` and `len` (a thread that sees this head sees a tail
        // that is no older). Acquire on failure, for `push_slow`: as in `push`.
        self.head.compare_exchange(head, head + count, Release, Acquire).is_ok()
    }
}

/// A thief's end of a [`StealQueue`].
pub struct Steal<'q, T> {
    ring: &'q StealQueue<T>,
}

impl<T> Steal<'_, T> {
    /// Moves the older half of this queue to the end of `into`, the oldest fiber first. Returns
    /// true if there was one.
    ///
    /// A queue of one is emptied. Takes less if `into` has less room, and nothing from `into`
    /// itself.
    pub fn steal_into(&self, into: &Local<'_, T>) -> bool {
        if ptr::eq(self.ring, into.ring) {
            return false;
        }
        let tail = into.tail();
        // Acquire: pairs with the Release of `advance`, as in `push`: these slots are written
        // below.
        let room = CAPACITY as u64 - (tail - into.ring.head.load(Acquire));
        loop {
            match self.grab(into.ring, tail, room) {
                Grab::Nothing => return false,
                Grab::Lost => spin_loop(),
                Grab::Taken(count) => {
                    into.publish_tail(tail + count);
                    return true;
                }
            }
        }
    }

    /// Makes one attempt: copies, then takes the copied fibers if no other thread moved `head`
    /// meanwhile.
    fn grab(&self, into: &StealQueue<T>, tail: u64, room: u64) -> Grab {
        // Acquire: pairs with the Release of `advance`: the tail read next is no older than this
        // head.
        let head = self.ring.head.load(Acquire);
        // Acquire: pairs with the Release of `publish_tail`.
        let len = self.ring.tail.load(Acquire) - head;
        if len.min(room) == 0 {
            return Grab::Nothing;
        }
        // More than the capacity: the head is out of date.
        if len > CAPACITY as u64 {
            return Grab::Lost;
        }
        let count = (len - len / 2).min(room);
        for i in 0..count {
            let item = self.ring.slot(head + i).load(Relaxed);
            into.slot(tail + i).store(item, Relaxed);
        }
        if self.ring.advance(head, count) { Grab::Taken(count) } else { Grab::Lost }
    }

    /// Returns the fiber that was the oldest a moment ago, to look at: it may run by now, or be
    /// another.
    pub fn peek(&self) -> Option<NonNull<T>> {
        // Relaxed: of a tail that is older than the head nothing is returned.
        let head = self.ring.head.load(Relaxed);
        // Acquire: pairs with the Release of `publish_tail`, for the contents of the fiber.
        let is_queued = self.ring.tail.load(unless_weakened!("queue-peek", Acquire)) > head;
        NonNull::new(self.ring.slot(head).load(Relaxed)).filter(|_| is_queued)
    }

    /// Returns true if no fiber was queued a moment ago.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of fibers that were queued a moment ago.
    pub fn len(&self) -> usize {
        // Acquire: pairs with the Release of `advance`: the tail is no older than the head.
        let head = self.ring.head.load(unless_weakened!("queue-len", Acquire));
        let len = self.ring.tail.load(Relaxed) - head;
        (len as usize).min(CAPACITY)
    }
}

impl<T> Clone for Steal<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Steal<'_, T> {}

enum Grab {
    Nothing,
    Lost,
    Taken(u64),
}
