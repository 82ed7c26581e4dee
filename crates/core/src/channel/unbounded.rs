//! A channel without bounds: values in two lists, one of the senders and one of the receivers.

use std::ptr::NonNull;

use super::blocks::{Block, Blocks};
use super::{Apart, Nothing, Party, Refused, Side, Stored};
use crate::atomic::{AtomicU32, AtomicUsize, Ordering, UnsafeCell, spin_loop, unless_weakened};
use crate::list::Unlinked;
use crate::lock::{Contender, Held, HeldBy, QueueLock};
use crate::wait::{Locked, Node, WaitQueue};

/// A channel with room for any number of values, sent and received by any number of threads,
/// oldest first.
///
/// Budget: one RMW per value and side; one line beside that of the value. The line of the senders
/// moves once per value while there are few, otherwise once per move.
#[repr(C)]
pub struct Unbounded<T, W> {
    /// Values that receivers have moved here; older than those in `sent`.
    moved: Apart<Moved<T>>,
    sent: Apart<Sent<T, W>>,
}

/// The line of the senders.
struct Sent<T, W> {
    /// The waiting receivers. The word is [`OPEN`] or [`CLOSED`]; stored under the lock.
    receivers: WaitQueue<Party<W>>,
    /// Number of values that were ever sent, less those that receivers took from here. Stored under
    /// the lock, loaded by any thread.
    count: AtomicUsize,
    /// Touched under the lock only.
    values: UnsafeCell<Blocks<T>>,
}

/// The line of the receivers.
struct Moved<T> {
    lock: QueueLock,
    /// 1 if a receiver may wait. Stored under the lock of `sent`.
    waiting: AtomicU32,
    /// Number of values that were ever taken from here. Stored under the lock, loaded by any
    /// thread.
    taken: AtomicUsize,
    /// `taken` once no value is here: [`Sent::count`] at the last move. Stored under both locks.
    end: AtomicUsize,
    /// Touched under the lock only.
    values: UnsafeCell<Blocks<T>>,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Sent<usize, usize>>() <= 64 && size_of::<Moved<usize>>() <= 64);

/// Least number of values that a receiver moves.
const LEAST_MOVE: usize = if cfg!(any(loom, shuttle)) { 1 } else { 32 };

/// Number of pauses before a party that found the lock held looks at it again: time for some calls
/// of its holder, which then has the line to itself. loom explores no time.
const PAUSES: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 32 };

/// Number of pauses in place of [`PAUSES`] if the holder is a receiver, which does not come back
/// before all moved values are received.
const BRIEF_PAUSES: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 4 };

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
            moved: Apart(Moved {
                lock: QueueLock::new(),
                waiting: AtomicU32::new(0),
                taken: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
                values: UnsafeCell::new(Blocks::new()),
            }),
            sent: Apart(Sent {
                receivers: WaitQueue::new(OPEN),
                count: AtomicUsize::new(0),
                values: UnsafeCell::new(Blocks::new()),
            }),
        }
    }

    fn receivers(&self) -> &WaitQueue<Party<W>> {
        &self.sent.0.receivers
    }

    /// Returns the values that no receiver has moved.
    #[inline(always)]
    fn values<R>(&self, _: &Locked<'_, Party<W>>, change: impl FnOnce(&mut Blocks<T>) -> R) -> R {
        // SAFETY: the lock is held, and `change` does not come here again.
        self.sent.0.values.with_mut(|values| change(unsafe { &mut *values }))
    }

    /// Returns the values that a receiver has moved.
    #[inline(always)]
    fn moved<R>(&self, _: &Held<'_>, change: impl FnOnce(&mut Blocks<T>) -> R) -> R {
        // SAFETY: as above.
        self.moved.0.values.with_mut(|values| change(unsafe { &mut *values }))
    }

    /// Returns true if there is a value. It may be the last one, which a receiver has just taken
    /// from `moved`.
    #[inline(always)]
    fn has_any(&self, _: &Locked<'_, Party<W>>) -> bool {
        self.sent_ever() != self.taken()
    }

    /// Returns true if a receiver is to be claimed for the first value.
    #[inline(always)]
    fn claims_first(&self, receivers: &Locked<'_, Party<W>>) -> bool {
        !receivers.is_empty() && !self.has_any(receivers)
    }

    /// Returns the number of values in `sent`.
    fn sent_count(&self, _: &Locked<'_, Party<W>>) -> usize {
        // Relaxed: stored under the lock.
        self.sent_ever().wrapping_sub(self.moved.0.end.load(Ordering::Relaxed))
    }

    /// Returns true if `moved` has a value, which may just have been taken. The answer false is
    /// certain under the lock of `sent`.
    #[inline(always)]
    fn has_moved(&self) -> bool {
        // Relaxed: the end is stored under that lock, and no value is taken behind it.
        self.taken() != self.moved.0.end.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn sent_ever(&self) -> usize {
        // Relaxed: all that follows from the number is decided under the lock of `sent`.
        self.sent.0.count.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn taken(&self) -> usize {
        // Relaxed: likewise, or under the lock of `moved`.
        self.moved.0.taken.load(Ordering::Relaxed)
    }

    /// Stores the number of values that were sent.
    #[inline(always)]
    fn set_sent_ever(&self, _: &Locked<'_, Party<W>>, count: usize) {
        // Release: pairs with the Acquire in `count_at_most`.
        self.sent.0.count.store(count, Ordering::Release);
    }

    /// Returns the number of values at a moment in this call, and the number of those taken before.
    /// Values that are taken from `moved` meanwhile are counted, so that 0 is certain.
    #[inline(always)]
    fn count_at_most(&self) -> (usize, usize) {
        // Acquire: pairs with the Release in `receive_moved`: all values that were taken had been
        // sent.
        let taken = self.moved.0.taken.load(Ordering::Acquire);
        // Acquire: pairs with the Release in `set_sent_ever`.
        (self.sent.0.count.load(Ordering::Acquire).wrapping_sub(taken), taken)
    }

    /// Takes the lock of `sent`, which was held, for a receiver.
    #[cold]
    #[inline(never)]
    fn lock_sent_later(&self, by: &impl Contender, held_by: HeldBy) -> Locked<'_, Party<W>> {
        pause(held_by);
        self.receivers().lock_briefly(by)
    }

    #[cold]
    #[inline(never)]
    fn send_slow(
        &self,
        by: &impl Contender,
        value: T,
        held_by: HeldBy,
    ) -> Result<Option<W>, Refused<T>> {
        pause(held_by);
        self.send_locked(self.receivers().lock(by), by, value)
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
                    self.set_sent_ever(&receivers, self.sent_ever().wrapping_add(1));
                    return Ok(if claims { claim(&mut receivers) } else { None });
                }
                Err(value) => value,
            };
            let count = self.sent_count(&receivers);
            drop(receivers);
            fresh = Some(Block::for_list_of(count));
            receivers = self.receivers().lock(by);
        }
    }

    /// Takes the oldest value that was moved; `None` if there is none.
    #[inline(always)]
    fn receive_moved(&self, by: &impl Contender) -> Option<(T, Option<W>)> {
        let held = match self.moved.0.lock.try_lock_unnamed() {
            Ok(held) => held,
            Err(_) => self.lock_moved_later(by),
        };
        let (value, used) = self.moved(&held, Blocks::pop)?;
        // Release: pairs with the Acquire in `count_at_most`.
        let release = unless_weakened!("channel-taken", Ordering::Release);
        self.moved.0.taken.store(self.taken().wrapping_add(1), release);
        // Relaxed: set under this lock; cleared only when no receiver waits, which is for good
        // until the next move.
        let waiting = self.moved.0.waiting.load(Ordering::Relaxed) == 1;
        drop(held);
        if !waiting && used.is_none() {
            return Some((value, None));
        }
        drop(used);
        Some((value, if waiting { self.pass_on(by) } else { None }))
    }

    #[cold]
    #[inline(never)]
    fn lock_moved_later(&self, by: &impl Contender) -> Held<'_> {
        pause(HeldBy::Other);
        self.moved.0.lock.lock_unnamed(by)
    }

    /// Claims the next receiver, if there are values for it.
    #[cold]
    #[inline(never)]
    fn pass_on(&self, by: &impl Contender) -> Option<W> {
        let mut receivers = self.receivers().lock(by);
        let passes_on = self.has_any(&receivers) && !cfg!(weaken = "channel-pass-on");
        let next = if passes_on { claim(&mut receivers) } else { None };
        // Relaxed: as in `receive_moved`.
        self.moved.0.waiting.store(u32::from(!receivers.is_empty()), Ordering::Relaxed);
        next
    }

    /// Receives from the values that were not moved, and moves the rest. `None`: another receiver
    /// has moved them meanwhile.
    #[inline(always)]
    fn receive_sent(&self, by: &impl Contender) -> Option<Result<(T, Option<W>), Nothing>> {
        let mut receivers = match self.receivers().try_lock_briefly() {
            Ok(receivers) => receivers,
            Err(held_by) => self.lock_sent_later(by, held_by),
        };
        if self.has_moved() {
            return None;
        }
        let Some((value, used)) = self.values(&receivers, Blocks::pop) else {
            return Some(Err(if self.is_closed() { Nothing::Closed } else { Nothing::Empty }));
        };
        self.set_sent_ever(&receivers, self.sent_ever().wrapping_sub(1));
        let others = self.sent_count(&receivers);
        let passes_on = others > 0 && !receivers.is_empty() && !cfg!(weaken = "channel-pass-on");
        let next = if passes_on { claim(&mut receivers) } else { None };
        if others >= LEAST_MOVE {
            self.move_values(&receivers);
        }
        drop(receivers);
        drop(used);
        Some(Ok((value, next)))
    }

    /// Moves the values that were sent, unless another receiver is about to leave the list, which
    /// is empty.
    fn move_values(&self, receivers: &Locked<'_, Party<W>>) {
        let moved = &self.moved.0;
        let Ok(held) = moved.lock.try_lock_unnamed() else { return };
        self.values(receivers, |sent| self.moved(&held, |moved| std::mem::swap(sent, moved)));
        // Relaxed, both: who acts on them holds a lock.
        moved.waiting.store(u32::from(!receivers.is_empty()), Ordering::Relaxed);
        moved.end.store(self.sent_ever(), Ordering::Relaxed);
    }
}

/// Claims the first in line.
#[cold]
fn claim<W: Copy>(receivers: &mut Locked<'_, Party<W>>) -> Option<W> {
    receivers.claim_first_that(0, |party| party.try_claim()).map(|party| party.waiter)
}

/// Waits before another look at a lock that was held.
fn pause(held_by: HeldBy) {
    let pauses = if held_by == HeldBy::Brief { BRIEF_PAUSES } else { PAUSES };
    (0..pauses).for_each(|_| spin_loop());
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
        self.count_at_most().0 > 0 || self.is_closed()
    }

    #[inline(always)]
    fn send(&self, by: &impl Contender, value: T) -> Result<Option<W>, Refused<T>> {
        let receivers = match self.receivers().try_lock() {
            Ok(receivers) => receivers,
            Err(held_by) => return self.send_slow(by, value, held_by),
        };
        let has_room = self.values(&receivers, |values| values.has_room());
        if !has_room || self.is_closed() || self.claims_first(&receivers) {
            return self.send_locked(receivers, by, value);
        }
        // SAFETY: there is room, by the lines above.
        self.values(&receivers, |values| unsafe { values.push_within(value) });
        self.set_sent_ever(&receivers, self.sent_ever().wrapping_add(1));
        Ok(None)
    }

    #[inline(always)]
    fn receive(&self, by: &impl Contender) -> Result<(T, Option<W>), Nothing> {
        loop {
            if self.has_moved()
                && let Some(received) = self.receive_moved(by)
            {
                return Ok(received);
            }
            if self.count_at_most().0 == 0 && !self.is_closed() {
                return Err(Nothing::Empty);
            }
            if let Some(result) = self.receive_sent(by) {
                return result;
            }
        }
    }

    unsafe fn enqueue(
        &self,
        side: Side,
        by: &impl Contender,
        node: NonNull<Node<Party<W>>>,
        was_claimed: bool,
    ) -> bool {
        let mut receivers = self.receivers().lock(by);
        let is_possible = self.is_closed() || self.has_any(&receivers);
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
            Side::Receive => unsafe { self.receivers().unlink(by, node) },
        }
    }

    fn next(&self, side: Side, by: &impl Contender) -> Option<W> {
        match side {
            Side::Send => None,
            Side::Receive => claim(&mut self.receivers().lock(by)),
        }
    }

    fn close(&self, by: &impl Contender) -> bool {
        let _receivers = self.receivers().lock(by);
        // Relaxed: under the lock.
        let before = self.receivers().word().load(Ordering::Relaxed);
        self.receivers().word().store(CLOSED, Ordering::Relaxed);
        before == OPEN
    }

    fn is_closed(&self) -> bool {
        // Relaxed: a caller that acts on it holds the lock.
        self.receivers().word().load(Ordering::Relaxed) == CLOSED
    }

    fn count(&self) -> usize {
        loop {
            let (count, taken) = self.count_at_most();
            if self.taken() == taken {
                return count;
            }
        }
    }
}
