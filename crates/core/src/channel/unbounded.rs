//! A channel without bounds: values and waiting receivers under one lock.

use std::ptr::NonNull;

use super::blocks::{Block, Blocks};
use super::{Nothing, Party, Refused, Side, Stored};
use crate::atomic::{AtomicUsize, Ordering, UnsafeCell, spin_loop};
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::wait::{Locked, Node, WaitQueue};

/// A channel with room for any number of values, sent and received by any number of threads,
/// oldest first.
///
/// Budget: one RMW per value and side; one line beside that of the value, whichever side.
#[repr(align(64))]
pub struct Unbounded<T, W> {
    /// The waiting receivers. The word is [`OPEN`] or [`CLOSED`]; stored under the lock.
    receivers: WaitQueue<Party<W>>,
    /// Number of values. Stored under the lock, loaded by any thread.
    count: AtomicUsize,
    /// Touched under the lock only.
    values: UnsafeCell<Blocks<T>>,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Unbounded<usize, usize>>() == 64);

/// Number of pauses before a party that found the lock held looks at it again: time for some calls
/// of its holder, which then has the line to itself. loom explores no time.
const PAUSES: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 32 };

const OPEN: u32 = 0;
const CLOSED: u32 = 1;

// SAFETY: values pass from thread to thread under the lock.
unsafe impl<T: Send, W: Copy + Send> Send for Unbounded<T, W> {}
// SAFETY: as for Send.
unsafe impl<T: Send, W: Copy + Send> Sync for Unbounded<T, W> {}

impl<T, W: Copy> Unbounded<T, W> {
    /// Creates an empty channel.
    #[allow(clippy::new_without_default, reason = "as its neighbours")]
    pub fn new() -> Self {
        Unbounded {
            receivers: WaitQueue::new(OPEN),
            count: AtomicUsize::new(0),
            values: UnsafeCell::new(Blocks::new()),
        }
    }

    /// Returns the values.
    #[inline(always)]
    fn values<R>(&self, _: &Locked<'_, Party<W>>, change: impl FnOnce(&mut Blocks<T>) -> R) -> R {
        // SAFETY: the lock is held, and `change` does not come here again.
        self.values.with_mut(|values| change(unsafe { &mut *values }))
    }

    /// Returns true if a receiver is to be claimed for the first value.
    #[inline(always)]
    fn claims_first(&self, receivers: &Locked<'_, Party<W>>) -> bool {
        self.count() == 0 && !receivers.is_empty()
    }

    /// Counts a value that was put in. Under the lock.
    #[inline(always)]
    fn count_in(&self) {
        // Relaxed: all that follows from the number is decided under the lock.
        self.count.store(self.count() + 1, Ordering::Relaxed);
    }

    /// Takes the lock, which was held, after a while.
    fn lock_later(&self, by: &impl Contender) -> Locked<'_, Party<W>> {
        (0..PAUSES).for_each(|_| spin_loop());
        self.receivers.lock(by)
    }

    #[cold]
    #[inline(never)]
    fn send_slow(&self, by: &impl Contender, value: T) -> Result<Option<W>, Refused<T>> {
        self.send_locked(self.lock_later(by), by, value)
    }

    /// Sends as [`send`](Stored::send) does, for a caller that has the lock.
    #[cold]
    #[inline(never)]
    fn send_locked<'l>(
        &'l self,
        mut receivers: Locked<'l, Party<W>>,
        by: &impl Contender,
        mut value: T,
    ) -> Result<Option<W>, Refused<T>> {
        let mut fresh = None;
        loop {
            if self.is_closed() {
                return Err(Refused::Closed(value));
            }
            let claims = self.claims_first(&receivers);
            value = match self.values(&receivers, |values| values.push(value, &mut fresh)) {
                Ok(()) => {
                    self.count_in();
                    return Ok(if claims { claim(receivers) } else { None });
                }
                Err(value) => value,
            };
            drop(receivers);
            fresh = Some(Block::for_list_of(self.count()));
            receivers = self.receivers.lock(by);
        }
    }

    #[cold]
    #[inline(never)]
    fn receive_slow(&self, by: &impl Contender) -> Result<(T, Option<W>), Nothing> {
        self.receive_locked(self.lock_later(by))
    }

    /// Receives as [`receive`](Stored::receive) does, for a caller that has the lock.
    #[inline(always)]
    fn receive_locked(&self, receivers: Locked<'_, Party<W>>) -> Result<(T, Option<W>), Nothing> {
        let Some((value, used)) = self.values(&receivers, Blocks::pop) else {
            return Err(if self.is_closed() { Nothing::Closed } else { Nothing::Empty });
        };
        let others = self.count() - 1;
        // Relaxed: as in `count_in`.
        self.count.store(others, Ordering::Relaxed);
        let passes_on = others > 0 && !receivers.is_empty() && !cfg!(weaken = "channel-pass-on");
        if !passes_on && used.is_none() {
            return Ok((value, None));
        }
        let next = finish(receivers, used, passes_on);
        Ok((value, next))
    }
}

/// Claims the next receiver, if there are values for it, and frees a block outside the lock.
#[cold]
#[inline(never)]
fn finish<T, W: Copy>(
    receivers: Locked<'_, Party<W>>,
    used: Option<Block<T>>,
    passes_on: bool,
) -> Option<W> {
    let next = passes_on.then(|| claim(receivers)).flatten();
    drop(used);
    next
}

/// Claims the first in line.
#[cold]
fn claim<W: Copy>(mut receivers: Locked<'_, Party<W>>) -> Option<W> {
    receivers.claim_first_that(0, |party| party.try_claim()).map(|party| party.waiter)
}

impl<T, W: Copy> Stored<W> for Unbounded<T, W> {
    type Value = T;

    #[inline(always)]
    fn send_ready(&self, by: &impl Contender, value: T) -> Result<Option<W>, T> {
        self.send(by, value).map_err(Refused::into_inner)
    }

    #[inline(always)]
    fn receive_ready(&self, by: &impl Contender) -> Option<(T, Option<W>)> {
        self.receive(by).ok()
    }

    fn is_ready(&self, _: Side) -> bool {
        self.count() > 0 || self.is_closed()
    }

    #[inline(always)]
    fn send(&self, by: &impl Contender, value: T) -> Result<Option<W>, Refused<T>> {
        let Some(receivers) = self.receivers.try_lock() else { return self.send_slow(by, value) };
        let has_room = self.values(&receivers, |values| values.has_room());
        if !has_room || self.is_closed() || self.claims_first(&receivers) {
            return self.send_locked(receivers, by, value);
        }
        // SAFETY: there is room, by the lines above.
        self.values(&receivers, |values| unsafe { values.push_within(value) });
        self.count_in();
        Ok(None)
    }

    #[inline(always)]
    fn receive(&self, by: &impl Contender) -> Result<(T, Option<W>), Nothing> {
        if self.count() == 0 && !self.is_closed() {
            return Err(Nothing::Empty);
        }
        match self.receivers.try_lock() {
            Some(receivers) => self.receive_locked(receivers),
            None => self.receive_slow(by),
        }
    }

    unsafe fn enqueue(
        &self,
        side: Side,
        by: &impl Contender,
        node: NonNull<Node<Party<W>>>,
        was_claimed: bool,
    ) -> bool {
        let mut receivers = self.receivers.lock(by);
        let is_possible = self.is_closed() || self.count() > 0;
        if side == Side::Send || is_possible && !cfg!(weaken = "channel-unbounded-look") {
            return false;
        }
        // SAFETY: passed on to the caller.
        unsafe { if was_claimed { receivers.enqueue_first(node) } else { receivers.enqueue(node) } }
        true
    }

    unsafe fn leave(
        &self,
        side: Side,
        by: &impl Contender,
        node: NonNull<Node<Party<W>>>,
    ) -> Unlinked {
        match side {
            Side::Send => Unlinked::AlreadyGone,
            // SAFETY: passed on to the caller.
            Side::Receive => unsafe { self.receivers.unlink(by, node) },
        }
    }

    fn next(&self, side: Side, by: &impl Contender) -> Option<W> {
        match side {
            Side::Send => None,
            Side::Receive => claim(self.receivers.lock(by)),
        }
    }

    fn close(&self, by: &impl Contender) -> bool {
        let _receivers = self.receivers.lock(by);
        // Relaxed: under the lock.
        let before = self.receivers.word().load(Ordering::Relaxed);
        self.receivers.word().store(CLOSED, Ordering::Relaxed);
        before == OPEN
    }

    fn is_closed(&self) -> bool {
        // Relaxed: a caller that acts on it holds the lock.
        self.receivers.word().load(Ordering::Relaxed) == CLOSED
    }

    fn count(&self) -> usize {
        // Relaxed: likewise.
        self.count.load(Ordering::Relaxed)
    }
}
