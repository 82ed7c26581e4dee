//! A worker's queue of work that other workers may steal: a bounded ring, oldest first for all,
//! from which its owner may also take back the item that it names.
//!
//! Each slot is claimed on its own, by one compare-exchange. The README beside this file has the
//! steps and the proof.

use std::{array, cell::Cell, marker::PhantomData, ops::Range, ptr, ptr::NonNull};

use crate::{
    atomic::{AtomicPtr, AtomicU64, Ordering::*, unless_weakened},
    list::{Chain, Linked},
};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Number of items that a ring holds.
#[cfg(not(loom))]
pub const CAPACITY: usize = 256;
/// Number of items that a ring holds; few, so that a model reaches the limit.
#[cfg(loom)]
pub const CAPACITY: usize = 4;

const HALF: usize = CAPACITY / 2;

/// The slot of an item in the ring that it was put into last: a hint that leads the owner back to
/// the item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place(u8);

impl Place {
    /// Returns the number of the slot.
    pub const fn index(self) -> u8 {
        self.0
    }

    /// Returns the place with this number.
    pub const fn at(index: u8) -> Self {
        Place(index)
    }
}

/// The memory of one queue, placed by the caller.
///
/// A slot outside `head..tail` is empty; one inside may be.
#[repr(C, align(64))]
pub struct StealQueue<T> {
    /// Position of the oldest item, or one before it. Written by the owner only.
    head: AtomicU64,
    /// Position behind the youngest item. Written by the owner only.
    tail: AtomicU64,
    /// Filled by the owner only; emptied by all, each time by the claim of one item.
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

    #[inline]
    fn slot(&self, position: u64) -> &AtomicPtr<T> {
        &self.slots[position as usize % CAPACITY]
    }
}

impl<T> Default for StealQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> StealQueue<T> {
    /// Takes the item at `position`, if there is one.
    #[inline]
    fn take_at(&self, position: u64) -> Option<NonNull<T>> {
        let slot = self.slot(position);
        NonNull::new(slot.load(Relaxed)).filter(|item| claim(slot, item.as_ptr()))
    }
}

/// Empties `slot` if it still holds `item`; returns true if the item is the caller's now.
#[inline]
fn claim<T>(slot: &AtomicPtr<T>, item: *mut T) -> bool {
    if cfg!(weaken = "queue-claim") {
        let holds = ptr::eq(slot.load(Acquire), item);
        slot.store(ptr::null_mut(), Relaxed);
        return holds;
    }
    // Acquire: pairs with the Release in `append`, for the contents of the item. The word may have
    // left the slot and come back since the caller has read it: then the item is there again.
    slot.compare_exchange(
        item,
        ptr::null_mut(),
        unless_weakened!("queue-acquire", Acquire),
        Relaxed,
    )
    .is_ok()
}

/// The items of the older half of a full ring and the pushed one.
#[must_use = "the items are in no queue now"]
pub struct Full<T: Linked>(
    /// The items, oldest first.
    pub Chain<T>,
);

/// The owner's end of a [`StealQueue`].
pub struct Local<'q, T> {
    ring: &'q StealQueue<T>,
    not_sync: PhantomData<Cell<()>>,
}

impl<'q, T> Local<'q, T> {
    /// Appends an item. Cost: three loads and two stores, on lines that only thieves touch.
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
        // SAFETY: passed on to the caller.
        unsafe { self.offer(item).map(drop).map_err(|_| self.overflow(item)) }
    }

    /// Appends an item as [`push`](Self::push) does, and returns its place.
    ///
    /// # Errors
    ///
    /// If the ring is full.
    ///
    /// # Safety
    ///
    /// `item` stays alive while it is queued.
    #[inline]
    pub unsafe fn offer(&self, item: NonNull<T>) -> Result<Place, RingIsFull> {
        if self.tail() - self.head() == CAPACITY as u64 && self.room() == 0 {
            return Err(RingIsFull);
        }
        let place = self.next_place();
        self.append(item);
        Ok(place)
    }

    /// Appends an item; there is room.
    #[inline]
    fn append(&self, item: NonNull<T>) {
        let tail = self.tail();
        // Release: pairs with the Acquire in `claim` and `items`, for the contents of the item.
        let release = unless_weakened!("queue-publish", Release);
        self.ring.slot(tail).store(item.as_ptr(), release);
        // Relaxed: thieves read the item from its slot.
        self.ring.tail.store(tail + 1, Relaxed);
    }

    /// Returns the place of the next item that is put in.
    #[inline]
    pub fn next_place(&self) -> Place {
        Place((self.tail() as usize % CAPACITY) as u8)
    }

    /// # Safety
    ///
    /// As for [`push`](Self::push).
    #[cold]
    unsafe fn overflow(&self, item: NonNull<T>) -> Full<T>
    where
        T: Linked,
    {
        let mut chain = Chain::new();
        for item in (0..HALF).map_while(|_| self.pop()).chain([item]) {
            // SAFETY: alive by the contract of its push, and in no queue now.
            unsafe { chain.push(item) };
        }
        Full(chain)
    }

    /// Takes the oldest item. Cost: one RMW, on its slot.
    #[inline]
    pub fn pop(&self) -> Option<NonNull<T>> {
        let (mut head, tail) = (self.head(), self.tail());
        let mut item = None;
        while item.is_none() && head < tail {
            item = self.ring.take_at(head);
            head += 1;
        }
        self.ring.head.store(head, Relaxed);
        item
    }

    /// Takes `item` back if it is in the slot `place` of this ring; returns true if it was. Cost:
    /// one RMW, on its slot.
    #[inline]
    #[must_use]
    pub fn take_back(&self, place: Place, item: NonNull<T>) -> bool {
        let is_taken = self.steal().take(place, item);
        if is_taken {
            self.trim();
        }
        is_taken
    }

    /// Gives up the empty slots behind the youngest item.
    #[inline]
    fn trim(&self) {
        let (head, mut tail) = (self.head(), self.tail());
        while head < tail && self.ring.slot(tail - 1).load(Relaxed).is_null() {
            tail -= 1;
        }
        self.ring.tail.store(tail, Relaxed);
    }

    /// Gives up the empty slots before the oldest item; returns the number of free slots.
    #[cold]
    fn room(&self) -> u64 {
        let tail = self.tail();
        let is_empty = |position: &u64| self.ring.slot(*position).load(Relaxed).is_null();
        let empty = (self.head()..tail).take_while(is_empty).count() as u64;
        let head = self.head() + empty;
        self.ring.head.store(head, Relaxed);
        CAPACITY as u64 - (tail - head)
    }

    /// Returns the items, from the oldest on, as they were queued a moment ago: a thief may have
    /// taken any of them.
    pub fn peek(&self) -> impl Iterator<Item = NonNull<T>> {
        self.ring.items()
    }

    /// Returns the number of queued items; thieves may reduce it at any time.
    pub fn len(&self) -> usize {
        self.peek().count()
    }

    /// Returns true if no item is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head() == self.tail() || self.peek().next().is_none()
    }

    /// Returns the thieves' handle of the same ring.
    pub fn steal(&self) -> Steal<'q, T> {
        self.ring.steal()
    }

    #[inline]
    fn head(&self) -> u64 {
        self.ring.head.load(Relaxed)
    }

    #[inline]
    fn tail(&self) -> u64 {
        self.ring.tail.load(Relaxed)
    }
}

/// The ring has no free slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingIsFull;

impl<T> StealQueue<T> {
    /// Returns the positions that may have an item, from the oldest on.
    #[inline]
    fn occupied(&self) -> Range<u64> {
        // Relaxed: if the two do not belong together, one is out of date, and so would be the look.
        let (head, tail) = (self.head.load(Relaxed), self.tail.load(Relaxed));
        head..tail.min(head + CAPACITY as u64)
    }

    /// Returns the items, from the oldest on, that were queued a moment ago.
    fn items(&self) -> impl Iterator<Item = NonNull<T>> {
        self.occupied().filter_map(|position| {
            // Acquire: pairs with the Release in `append`, for the contents of the item.
            NonNull::new(self.slot(position).load(unless_weakened!("queue-peek", Acquire)))
        })
    }
}

/// A thief's end of a [`StealQueue`].
pub struct Steal<'q, T> {
    ring: &'q StealQueue<T>,
}

impl<T> Steal<'_, T> {
    /// Moves the older half of this queue to the end of `into`, the oldest item first. Returns true
    /// if it has got any. `note` is told the new place of each item, before other threads find the
    /// item there.
    ///
    /// A queue of one is emptied. Takes less if `into` has less room, and nothing from `into`
    /// itself.
    pub fn steal_into(&self, into: &Local<'_, T>, note: impl Fn(NonNull<T>, Place)) -> bool {
        let mut positions = self.ring.occupied();
        let first = positions.find(|position| !self.ring.slot(*position).load(Relaxed).is_null());
        let Some(first) = first.filter(|_| !ptr::eq(self.ring, into.ring)) else { return false };
        let half = (positions.end - first).div_ceil(2).min(into.room());
        let mut found = false;
        for position in first..first + half {
            if let Some(item) = self.ring.take_at(position) {
                note(item, into.next_place());
                into.append(item);
                found = true;
            }
        }
        found
    }

    /// Takes the oldest item.
    pub fn steal(&self) -> Option<NonNull<T>> {
        self.ring.occupied().find_map(|position| self.ring.take_at(position))
    }

    /// Takes `item` if it is in the slot `place`; returns true if it was.
    #[inline]
    #[must_use]
    pub fn take(&self, place: Place, item: NonNull<T>) -> bool {
        let slot = &self.ring.slots[usize::from(place.0) % CAPACITY];
        ptr::eq(slot.load(Relaxed), item.as_ptr()) && claim(slot, item.as_ptr())
    }

    /// Returns the item that was the oldest a moment ago, to look at: it may run by now, or be
    /// another.
    pub fn peek(&self) -> Option<NonNull<T>> {
        self.ring.items().next()
    }

    /// Returns true if no item was queued a moment ago.
    pub fn is_empty(&self) -> bool {
        self.peek().is_none()
    }
}

impl<T> Clone for Steal<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Steal<'_, T> {}
