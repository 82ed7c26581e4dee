//! A buffer without bounds: rings, each with twice the room of its predecessor.

use std::ptr;

use super::{Apart, Buffer, NotPopped, NotPushed, Other, RingBuffer};
use crate::atomic::{AtomicPtr, Ordering, unless_weakened};

/// Room in the first ring.
const FIRST: usize = if cfg!(any(loom, shuttle)) { 1 } else { 32 };

/// A buffer with room for any number of values, pushed and popped by any number of threads, oldest
/// first.
///
/// A full ring is followed by one of twice the room. Rings are kept until the end, so that no
/// thread looks at a freed ring. Together they have room for less than four times the largest
/// number of values so far.
///
/// Budget: as for [`RingBuffer`](super::RingBuffer), and one load of a line that is seldom written.
pub struct Chain<T> {
    /// The ring that is pushed to, or one before it.
    pushed: Apart<AtomicPtr<Link<T>>>,
    /// The ring that is popped from, or one before it.
    popped: Apart<AtomicPtr<Link<T>>>,
    first: *mut Link<T>,
}

struct Link<T> {
    ring: RingBuffer<T>,
    /// Null, the ring that follows, or [`END`](Self::END). Set once, before the ring is closed.
    next: AtomicPtr<Link<T>>,
}

// SAFETY: values pass from thread to thread; links are freed by the owner of the chain.
unsafe impl<T: Send> Send for Chain<T> {}
// SAFETY: as for Send.
unsafe impl<T: Send> Sync for Chain<T> {}

enum Next<'c, T> {
    Nothing,
    Ring(&'c Link<T>),
    /// No ring, now and for ever.
    End,
}

impl<T> Link<T> {
    /// The mark of a chain that has ended.
    const END: *mut Self = ptr::without_provenance_mut(1);

    fn new(capacity: usize, other: Other) -> *mut Self {
        let ring = RingBuffer::announced(capacity, other);
        Box::into_raw(Box::new(Link { ring, next: AtomicPtr::new(ptr::null_mut()) }))
    }

    fn next(&self) -> Next<'_, T> {
        // Acquire: pairs with the Release in `follow`.
        match self.next.load(Ordering::Acquire) {
            next if next.is_null() => Next::Nothing,
            next if next == Self::END => Next::End,
            // SAFETY: made by `new`, and freed with the chain only.
            next => Next::Ring(unsafe { &*next }),
        }
    }

    /// Sets `next` as the successor, and closes the ring; returns false if there is a successor
    /// already. Release: pairs with the Acquire in `next`.
    fn follow(&self, next: *mut Self) -> bool {
        let release = unless_weakened!("channel-grow", Ordering::Release);
        let set = self.next.compare_exchange(ptr::null_mut(), next, release, Ordering::Relaxed);
        self.ring.close();
        set.is_ok()
    }
}

impl<T> Chain<T> {
    /// Creates an empty chain.
    #[allow(clippy::new_without_default, reason = "as its neighbours")]
    pub fn new() -> Self {
        let first = Link::new(FIRST, Other::Runs);
        let at_first = || Apart(AtomicPtr::new(first));
        Chain { pushed: at_first(), popped: at_first(), first }
    }

    #[inline]
    fn at(end: &Apart<AtomicPtr<Link<T>>>) -> &Link<T> {
        // SAFETY: never null, and freed with the chain only. Acquire: pairs with the Release in
        // `go_on`.
        unsafe { &*end.0.load(unless_weakened!("channel-end", Ordering::Acquire)) }
    }

    /// Moves an end from a closed ring to its successor; returns false if there is none.
    #[cold]
    fn go_on(end: &Apart<AtomicPtr<Link<T>>>, closed: &Link<T>) -> bool {
        let Next::Ring(next) = closed.next() else { return false };
        let (closed, next) = (ptr::from_ref(closed).cast_mut(), ptr::from_ref(next).cast_mut());
        // Release: pairs with the Acquire in `at`. Relaxed on failure: another thread has moved it
        // before.
        let release = unless_weakened!("channel-go-on", Ordering::Release);
        let _ = end.0.compare_exchange(closed, next, release, Ordering::Relaxed);
        true
    }

    /// Appends a ring behind `full`, unless it has a successor.
    #[cold]
    fn grow(full: &Link<T>) {
        // The new ring begins as if a receiver were queued: the first push there finds out.
        let next = Link::new(full.ring.capacity() * 2, Other::Queued);
        if !full.follow(next) {
            // SAFETY: just made, and no other thread has seen it.
            drop(unsafe { Box::from_raw(next) });
        }
    }
}

impl<T> Buffer for Chain<T> {
    type Value = T;

    #[inline]
    fn push(&self, mut value: T) -> Result<Other, NotPushed<T>> {
        loop {
            let link = Self::at(&self.pushed);
            value = match link.ring.push(value) {
                Err(NotPushed::Full(value)) => {
                    Self::grow(link);
                    value
                }
                Err(NotPushed::Closed(value)) if Self::go_on(&self.pushed, link) => value,
                result => return result,
            };
        }
    }

    #[inline]
    fn pop(&self) -> Result<(T, Other), NotPopped> {
        loop {
            let link = Self::at(&self.popped);
            match link.ring.pop() {
                Err(NotPopped::Closed) if Self::go_on(&self.popped, link) => {}
                result => return result,
            }
        }
    }

    /// Returns false: there is always room.
    fn announce_push(&self) -> bool {
        false
    }

    fn announce_pop(&self) -> bool {
        Self::at(&self.popped).ring.announce_pop()
    }

    fn retract_push(&self) {}

    /// A queued receiver has found no value, so it has made its announcement at the last ring.
    fn retract_pop(&self) {
        Self::at(&self.pushed).ring.retract_pop();
    }

    fn close(&self) -> bool {
        loop {
            let last = Self::at(&self.pushed);
            if last.follow(Link::END) {
                return true;
            }
            if !Self::go_on(&self.pushed, last) {
                return false;
            }
        }
    }

    fn is_closed(&self) -> bool {
        let mut link = Self::at(&self.pushed);
        while let Next::Ring(next) = link.next() {
            link = next;
        }
        matches!(link.next(), Next::End)
    }

    fn count(&self) -> usize {
        let mut link = Self::at(&self.popped);
        let mut len = link.ring.count();
        while let Next::Ring(next) = link.next() {
            link = next;
            len += link.ring.count();
        }
        len
    }
}

impl<T> Drop for Chain<T> {
    fn drop(&mut self) {
        let mut links = Links(self.first);
        links.free();
    }
}

/// Links that are freed even if the destructor of a value in one of them panics.
struct Links<T>(*mut Link<T>);

impl<T> Links<T> {
    fn free(&mut self) {
        while !self.0.is_null() && self.0 != Link::END {
            // SAFETY: made by `Link::new`, and only this thread has the chain.
            let first = unsafe { Box::from_raw(self.0) };
            self.0 = first.next.load(Ordering::Relaxed);
        }
    }
}

impl<T> Drop for Links<T> {
    fn drop(&mut self) {
        self.free();
    }
}
