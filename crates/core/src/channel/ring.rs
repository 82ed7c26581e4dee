//! A bounded buffer, after Dmitry Vyukov's bounded MPMC queue.

use std::mem::MaybeUninit;

use super::{Apart, Buffer, Cell, NotPushed, Nothing, Other};
use crate::atomic::{AtomicUsize, Ordering, unless_weakened};

/// A buffer with room for a fixed number of values, pushed and popped by any number of threads,
/// oldest first.
///
/// Budget: one RMW per push, on a line of the pushing side, and one per pop, on a line of the
/// popping side; of the lines with values each side misses one for every change of sides.
pub struct RingBuffer<T> {
    /// The place of the next push. Changed by exchanges alone.
    tail: Apart<AtomicUsize>,
    /// The place of the oldest value. Changed by exchanges alone.
    head: Apart<AtomicUsize>,
    slots: Box<[BufferSlot<T>]>,
    /// Distance from a place to the same place in the next lap.
    lap: usize,
}

struct BufferSlot<T> {
    /// The place that may be pushed to next; or, once it was pushed to, that place plus one.
    stamp: AtomicUsize,
    value: Cell<T>,
}

// SAFETY: values pass from thread to thread. A thread that took a place by an exchange owns its
// slot; the stamp orders it behind the slot's previous owner.
unsafe impl<T: Send> Send for RingBuffer<T> {}
// SAFETY: as for Send.
unsafe impl<T: Send> Sync for RingBuffer<T> {}

/// The word at either end.
///
/// ```text
/// | place | CLOSED | QUEUED |   CLOSED: nothing is pushed any more (tail only)
///             1        0        QUEUED: of the other side somebody may be queued
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
struct EndWord(usize);

impl EndWord {
    const QUEUED: usize = 1;
    const CLOSED: usize = 2;
    /// One place.
    const PLACE: usize = 4;

    /// Returns the place, without the bits.
    const fn place(self) -> usize {
        self.0 & !(Self::QUEUED | Self::CLOSED)
    }

    const fn other(self) -> Other {
        if self.0 & Self::QUEUED == 0 { Other::Runs } else { Other::Queued }
    }

    const fn is_closed(self) -> bool {
        self.0 & Self::CLOSED != 0
    }
}

impl<T> RingBuffer<T> {
    /// Creates a ring for `capacity` values.
    ///
    /// # Panics
    ///
    /// If there is room for none, or for more than memory can hold.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a ring holds at least one value");
        let laps = capacity.checked_add(1).and_then(usize::checked_next_power_of_two);
        let lap =
            laps.and_then(|places| places.checked_mul(EndWord::PLACE)).expect("too many values");
        let slot = |index| BufferSlot {
            stamp: AtomicUsize::new(index * EndWord::PLACE),
            value: Cell::new(MaybeUninit::uninit()),
        };
        let mut slots = Vec::new();
        assert!(slots.try_reserve_exact(capacity).is_ok(), "too many values for the memory");
        slots.extend((0..capacity).map(slot));
        RingBuffer {
            tail: Apart(AtomicUsize::new(0)),
            head: Apart(AtomicUsize::new(0)),
            slots: slots.into_boxed_slice(),
            lap,
        }
    }

    fn clear(&self) {
        while let Some((value, _)) = self.pop() {
            drop(value);
        }
    }

    /// Returns the number of values that there is room for.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    fn index(&self, place: usize) -> usize {
        (place & (self.lap - 1)) / EndWord::PLACE
    }

    /// Returns the word of an end once the place of `end` was taken.
    fn after(&self, end: EndWord) -> usize {
        if self.index(end.place()) + 1 < self.capacity() {
            return end.0 + EndWord::PLACE;
        }
        let said = end.0 - end.place();
        (end.place() & !(self.lap - 1)).wrapping_add(self.lap) | said
    }

    /// Relaxed: an exchange or a stamp decides.
    fn head(&self) -> EndWord {
        EndWord(self.head.0.load(Ordering::Relaxed))
    }

    /// Acquire: pairs with the Release in `close`, so that a thread that sees the ring closed sees
    /// the writes before that.
    fn tail(&self) -> EndWord {
        EndWord(self.tail.0.load(Ordering::Acquire))
    }

    /// Returns the slot at the place of `end`.
    fn slot(&self, end: EndWord) -> &BufferSlot<T> {
        &self.slots[self.index(end.place())]
    }

    /// Moves an end on from `from`; the error is its present value.
    fn advance(&self, end: &AtomicUsize, from: EndWord) -> Result<(), EndWord> {
        // Relaxed: the stamp publishes the value, and the lock of the queue publishes the waiters.
        let order = Ordering::Relaxed;
        let moved = end.compare_exchange_weak(from.0, self.after(from), order, order);
        moved.map(drop).map_err(EndWord)
    }
}

impl<T> Buffer for RingBuffer<T> {
    type Value = T;

    #[inline]
    fn push(&self, value: T) -> Result<Other, NotPushed<T>> {
        let mut tail = EndWord(self.tail.0.load(Ordering::Relaxed));
        loop {
            if tail.is_closed() {
                return Err(NotPushed::Closed(value));
            }
            let slot = self.slot(tail);
            // Acquire: pairs with the Release in `pop`; the slot is empty.
            let stamp = slot.stamp.load(Ordering::Acquire);
            if stamp == tail.place() {
                match self.advance(&self.tail.0, tail) {
                    Ok(()) => {
                        // SAFETY: the place is the caller's, and empty, by the stamp.
                        slot.value.with_mut(|slot| unsafe { (*slot).write(value) });
                        // Release: pairs with the Acquire in `pop`.
                        let release = unless_weakened!("channel-push", Ordering::Release);
                        slot.stamp.store(tail.place() + EndWord::PLACE, release);
                        return Ok(tail.other());
                    }
                    Err(seen) => tail = seen,
                }
            } else {
                let seen = EndWord(self.tail.0.load(Ordering::Relaxed));
                if seen == tail {
                    return Err(NotPushed::Unready(value));
                }
                tail = seen;
            }
        }
    }

    #[inline]
    fn pop(&self) -> Option<(T, Other)> {
        let mut head = self.head();
        loop {
            let slot = self.slot(head);
            // Acquire: pairs with the Release in `push`; the value is there.
            let stamp = slot.stamp.load(Ordering::Acquire);
            if stamp == head.place() + EndWord::PLACE {
                match self.advance(&self.head.0, head) {
                    Ok(()) => {
                        // SAFETY: the place is the caller's, and has a value, by the stamp.
                        let value = slot.value.with(|slot| unsafe { (*slot).assume_init_read() });
                        // Release: pairs with the Acquire in `push`.
                        let release = unless_weakened!("channel-pop", Ordering::Release);
                        slot.stamp.store(head.place().wrapping_add(self.lap), release);
                        return Some((value, head.other()));
                    }
                    Err(seen) => head = seen,
                }
            } else {
                let seen = self.head();
                if seen == head {
                    return None;
                }
                head = seen;
            }
        }
    }

    fn is_push_ready(&self) -> bool {
        // Relaxed, here and below: the push or pop decides.
        let tail = EndWord(self.tail.0.load(Ordering::Relaxed));
        self.slot(tail).stamp.load(Ordering::Relaxed) == tail.place()
    }

    fn is_pop_ready(&self) -> bool {
        let head = self.head();
        self.slot(head).stamp.load(Ordering::Relaxed) == head.place() + EndWord::PLACE
    }

    // Both ends decide whether the ring is full or empty: the stamp may not even be set by the
    // thread that took the place before. The end that is loaded first is not behind the second.

    fn is_full(&self) -> bool {
        let tail = self.tail();
        self.head().place().wrapping_add(self.lap) == tail.place()
    }

    fn nothing(&self) -> Option<Nothing> {
        let head = self.head();
        let tail = self.tail();
        let nothing = if tail.is_closed() { Nothing::Closed } else { Nothing::Empty };
        (tail.place() == head.place()).then_some(nothing)
    }

    fn announce_push(&self) -> bool {
        // Relaxed: a party that pops after this takes the lock of the queue and finds the waiter.
        let head = EndWord(self.head.0.fetch_or(EndWord::QUEUED, Ordering::Relaxed));
        let tail = self.tail();
        !tail.is_closed() && head.place().wrapping_add(self.lap) == tail.place()
    }

    fn announce_pop(&self) -> bool {
        // Relaxed: a party that finds the ring closed here pops again, and acquires then. A party
        // that pushes after this takes the lock of the queue and finds the waiter.
        let tail = EndWord(self.tail.0.fetch_or(EndWord::QUEUED, Ordering::Relaxed));
        !tail.is_closed() && self.head().place() == tail.place()
    }

    fn retract_push(&self) {
        // Relaxed: nothing is published with it.
        self.head.0.fetch_and(!EndWord::QUEUED, Ordering::Relaxed);
    }

    fn retract_pop(&self) {
        // Relaxed: as above.
        self.tail.0.fetch_and(!EndWord::QUEUED, Ordering::Relaxed);
    }

    fn close(&self) -> bool {
        // Release alone: pairs with the Acquire in `tail`. The closing thread touches no value.
        !EndWord(self.tail.0.fetch_or(EndWord::CLOSED, Ordering::Release)).is_closed()
    }

    fn is_closed(&self) -> bool {
        self.tail().is_closed()
    }

    fn count(&self) -> usize {
        loop {
            let (tail, head) = (self.tail().place(), self.head().place());
            if self.tail().place() != tail {
                continue;
            }
            let (first, behind) = (self.index(head), self.index(tail));
            return match (head == tail, first < behind) {
                (true, _) => 0,
                (_, true) => behind - first,
                (_, false) => self.capacity() - first + behind,
            };
        }
    }
}

impl<T> Drop for RingBuffer<T> {
    fn drop(&mut self) {
        let left = Left(self);
        left.0.clear();
    }
}

/// Values that are dropped even if the destructor of one of them panics.
struct Left<'r, T>(&'r RingBuffer<T>);

impl<T> Drop for Left<'_, T> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn ring_of(values: impl IntoIterator<Item = u32>, capacity: usize) -> RingBuffer<u32> {
        let ring = RingBuffer::new(capacity);
        values.into_iter().for_each(|value| drop(ring.push(value)));
        ring
    }

    /// Takes a place as a thread does that then stops. A weak exchange may fail for no reason.
    fn take_place(ring: &RingBuffer<u32>, end: &AtomicUsize) {
        while ring.advance(end, EndWord(end.load(Ordering::Relaxed))).is_err() {}
    }

    #[test]
    fn no_push_spins_for_a_receiver_stopped_before_it_freed_a_slot() {
        for capacity in 1..4 {
            let ring = ring_of(0..capacity as u32, capacity);
            take_place(&ring, &ring.head.0);
            (1..capacity).for_each(|_| assert!(ring.pop().is_some()));
            assert_eq!((ring.pop(), ring.nothing()), (None, Some(Nothing::Empty)));
            assert_eq!(ring.push(7), Err(NotPushed::Unready(7)));
            assert!(!ring.is_full());
            ring.close();
            assert_eq!((ring.pop(), ring.nothing()), (None, Some(Nothing::Closed)));
        }
    }

    #[test]
    fn no_pop_spins_for_a_sender_stopped_before_it_filled_a_slot() {
        for capacity in 1..4 {
            let ring = RingBuffer::new(capacity);
            take_place(&ring, &ring.tail.0);
            (1..capacity).for_each(|_| assert!(ring.push(1).is_ok()));
            assert_eq!(ring.push(7), Err(NotPushed::Unready(7)));
            assert!(ring.is_full() && !ring.is_push_ready());
            assert_eq!((ring.pop(), ring.nothing()), (None, None));
            // The stopped thread goes on. SAFETY: the place was taken above, and nothing else uses
            // it.
            ring.slots[0].value.with_mut(|slot| unsafe { (*slot).write(0) });
            ring.slots[0].stamp.store(EndWord::PLACE, Ordering::Release);
            assert!(ring.is_pop_ready());
            assert_eq!(ring.pop().map(|(value, _)| value), Some(0));
        }
    }
}
