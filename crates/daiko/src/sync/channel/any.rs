//! State that the two ends of a channel share, for each kind of channel.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;

use daiko_core::channel::{
    Buffered, Meeting, MeetingSlot, Nothing, Offer, Party, Refused, Rendezvous, RingBuffer, Side,
    Stored, Unbounded,
};
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::wait::{Node, NodeState};

use super::{RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError};
use crate::atomic::{AtomicUsize, Ordering};
use crate::caller;
use daiko_rt::Deadline;
use daiko_rt::call::InCall;
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Ended, Object, Waiter};

/// A channel with the number of its ends.
pub(super) struct CountedChannel<T> {
    pub(super) any: Any<T>,
    pub(super) senders: Ends,
    pub(super) receivers: Ends,
}

// As in `std`: no panic leaves a change of the channel half done.
impl<T> UnwindSafe for CountedChannel<T> {}
impl<T> RefUnwindSafe for CountedChannel<T> {}

impl<T> CountedChannel<T> {
    pub(super) fn new(any: Any<T>) -> Self {
        CountedChannel { any, senders: Ends::one(), receivers: Ends::one() }
    }
}

/// The number of ends of one kind.
pub(super) struct Ends(AtomicUsize);

impl Ends {
    fn one() -> Self {
        Ends(AtomicUsize::new(1))
    }

    /// Counts the clone of an end.
    pub(super) fn enter(&self) {
        // Relaxed: the end that is cloned is already counted.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        assert!(before < isize::MAX as usize, "daiko: a channel has too many ends");
    }

    /// Counts out an end that is dropped; returns true if it was the last.
    pub(super) fn leave(&self) -> bool {
        // Release and Acquire: each earlier end's actions happen before the last end's.
        self.0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// A channel of any kind.
#[allow(clippy::large_enum_variant, reason = "a box would cost each operation a line more")]
pub(super) enum Any<T> {
    Bounded(Buffered<RingBuffer<T>, WaiterId>),
    Unbounded(Unbounded<T, WaiterId>),
    Rendezvous(Rendezvous<T, WaiterId>),
}

impl<T> Any<T> {
    pub(super) fn bounded(capacity: usize) -> Self {
        Any::Bounded(Buffered::new(RingBuffer::new(capacity)))
    }

    pub(super) fn unbounded() -> Self {
        Any::Unbounded(Unbounded::new())
    }

    pub(super) fn rendezvous() -> Self {
        Any::Rendezvous(Rendezvous::new())
    }

    #[inline]
    pub(super) fn try_send(&self, call: InCall<'_>, message: T) -> Result<(), TrySendError<T>> {
        match self {
            Any::Bounded(channel) => try_send(call, channel, message),
            Any::Unbounded(channel) => try_send(call, channel, message),
            Any::Rendezvous(channel) => try_give(call, channel, message),
        }
    }

    #[inline]
    pub(super) fn try_recv(&self, call: InCall<'_>) -> Result<T, TryRecvError> {
        match self {
            Any::Bounded(channel) => try_recv(call, channel),
            Any::Unbounded(channel) => try_recv(call, channel),
            Any::Rendezvous(channel) => try_take(call, channel),
        }
    }

    /// Sends `message` once that is possible. Inlined for the rendezvous, which usually switches.
    #[inline(always)]
    pub(super) fn send(
        &self,
        call: InCall<'_>,
        message: T,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), SendTimeoutError<T>> {
        match self {
            Any::Bounded(channel) => send(call, channel, message, deadline),
            Any::Unbounded(channel) => send(call, channel, message, deadline),
            // One look under the channel's lock decides between a wait and no wait.
            Any::Rendezvous(channel) => give(call, channel, message, deadline()),
        }
    }

    /// Receives a message once that is possible. Inlined for the same reason as `send`.
    #[inline(always)]
    pub(super) fn recv(
        &self,
        call: InCall<'_>,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<T, RecvTimeoutError> {
        match self {
            Any::Bounded(channel) => recv(call, channel, deadline),
            Any::Unbounded(channel) => recv(call, channel, deadline),
            Any::Rendezvous(channel) => take(call, channel, deadline()),
        }
    }

    /// Closes the channel and wakes its waiters, which then report it.
    pub(super) fn close(&self, call: InCall<'_>) {
        match self {
            Any::Bounded(channel) => close(call, channel),
            Any::Unbounded(channel) => close(call, channel),
            Any::Rendezvous(channel) => loop {
                let waiter = channel.lock(ThisThread::of(call)).close();
                if waiter.is_none() {
                    return;
                }
                wait::wake(call, waiter);
            },
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        match self {
            Any::Bounded(channel) => channel.is_closed(),
            Any::Unbounded(channel) => channel.is_closed(),
            Any::Rendezvous(channel) => channel.is_closed(),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Any::Bounded(channel) => channel.count(),
            Any::Unbounded(channel) => channel.count(),
            Any::Rendezvous(_) => 0,
        }
    }

    pub(super) fn capacity(&self) -> Option<usize> {
        match self {
            Any::Bounded(channel) => Some(channel.buffer().capacity()),
            Any::Unbounded(_) => None,
            Any::Rendezvous(_) => Some(0),
        }
    }
}

#[inline(always)]
pub(super) fn try_send<C: Stored<WaiterId>>(
    call: InCall<'_>,
    channel: &C,
    message: C::Value,
) -> Result<(), TrySendError<C::Value>> {
    match channel.send(ThisThread::of(call), message) {
        Ok(receiver) => {
            wait::wake(call, receiver);
            Ok(())
        }
        Err(Refused::Full(message)) => Err(TrySendError::Full(message)),
        Err(Refused::Closed(message)) => Err(TrySendError::Disconnected(message)),
    }
}

#[inline(always)]
pub(super) fn try_recv<C: Stored<WaiterId>>(
    call: InCall<'_>,
    channel: &C,
) -> Result<C::Value, TryRecvError> {
    match channel.receive(ThisThread::of(call)) {
        Ok((message, next)) => {
            wait::wake(call, next);
            Ok(message)
        }
        Err(Nothing::Empty) => Err(TryRecvError::Empty),
        Err(Nothing::Closed) => Err(TryRecvError::Disconnected),
    }
}

/// Sends `message` once there is room.
#[inline(never)]
fn send<C: Stored<WaiterId>>(
    call: InCall<'_>,
    channel: &C,
    message: C::Value,
    deadline: impl FnOnce() -> Deadline,
) -> Result<(), SendTimeoutError<C::Value>> {
    match channel.send_ready(ThisThread::of(call), message) {
        Ok(receiver) => {
            wait::wake(call, receiver);
            Ok(())
        }
        Err(message) => send_slow(call, channel, message, deadline()),
    }
}

#[cold]
#[inline(never)]
fn send_slow<C: Stored<WaiterId>>(
    call: InCall<'_>,
    channel: &C,
    mut message: C::Value,
    deadline: Deadline,
) -> Result<(), SendTimeoutError<C::Value>> {
    let (waiter, side) = (caller::unasked(), AtSide { channel, side: Side::Send });
    let (node, mut was_claimed) = (Node::new(Party::alone(waiter.id())), false);
    let mut polls = waiter.polls();
    loop {
        polls.until(|| channel.is_ready(Side::Send));
        message = match try_send(call, channel, message) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Disconnected(message)) => {
                return Err(SendTimeoutError::Disconnected(message));
            }
            Err(TrySendError::Full(message)) => message,
        };
        waiter.ask("Sender::send");
        // SAFETY: the node is in no queue, and stays in place until it has left or is claimed.
        if !unsafe { side.enqueue(call, &node, was_claimed) } {
            continue;
        }
        if waiter.wait(call, &node, &side, deadline) == Ended::TimedOut {
            return Err(SendTimeoutError::Timeout(message));
        }
        was_claimed = true;
    }
}

/// Receives a message once there is one.
#[inline(never)]
fn recv<C: Stored<WaiterId>>(
    call: InCall<'_>,
    channel: &C,
    deadline: impl FnOnce() -> Deadline,
) -> Result<C::Value, RecvTimeoutError> {
    match channel.receive_ready(ThisThread::of(call)) {
        Some((message, next)) => {
            wait::wake(call, next);
            Ok(message)
        }
        None => recv_slow(call, channel, deadline()),
    }
}

#[cold]
#[inline(never)]
fn recv_slow<C: Stored<WaiterId>>(
    call: InCall<'_>,
    channel: &C,
    deadline: Deadline,
) -> Result<C::Value, RecvTimeoutError> {
    let (waiter, side) = (caller::unasked(), AtSide { channel, side: Side::Receive });
    let (node, mut was_claimed) = (Node::new(Party::alone(waiter.id())), false);
    let mut polls = waiter.polls();
    loop {
        polls.until(|| channel.is_ready(Side::Receive));
        match try_recv(call, channel) {
            Ok(message) => return Ok(message),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => {}
        }
        waiter.ask("Receiver::recv");
        // SAFETY: the node is in no queue, and stays in place until it has left or is claimed.
        if !unsafe { side.enqueue(call, &node, was_claimed) } {
            continue;
        }
        if waiter.wait(call, &node, &side, deadline) == Ended::TimedOut {
            return Err(RecvTimeoutError::Timeout);
        }
        was_claimed = true;
    }
}

fn close(call: InCall<'_>, channel: &impl Stored<WaiterId>) {
    channel.close(ThisThread::of(call));
    for side in [Side::Receive, Side::Send] {
        while let Some(waiter) = channel.next(side, ThisThread::of(call)) {
            wait::wake(call, Some(waiter));
        }
    }
}

/// One side of a channel that holds messages: the waiters for room, or for a message.
pub(super) struct AtSide<'c, C> {
    pub(super) channel: &'c C,
    pub(super) side: Side,
}

impl<C: Stored<WaiterId>> AtSide<'_, C> {
    /// Queues `node`, as the first in line if it was claimed before; returns false if its waiter
    /// need not wait.
    ///
    /// # Safety
    ///
    /// As for `Stored::enqueue`.
    pub(super) unsafe fn enqueue(
        &self,
        call: InCall<'_>,
        node: &Node<Party<WaiterId>>,
        was_claimed: bool,
    ) -> bool {
        // SAFETY: passed on to the caller.
        unsafe {
            let by = ThisThread::of(call);
            self.channel.enqueue(self.side, by, NonNull::from(node), was_claimed)
        }
    }
}

impl<C: Stored<WaiterId>> Object<Party<WaiterId>> for AtSide<'_, C> {
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<Party<WaiterId>>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.channel.leave(self.side, ThisThread::of(call), node) }
    }

    fn give_way(&self, call: InCall<'_>, _: u8) -> bool {
        wait::wake(call, self.channel.next(self.side, ThisThread::of(call)));
        true
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::new(WaitKind::Channel, self.channel)
    }
}

/// The queue of a rendezvous, as a waiter sees it.
pub(super) struct AtMeeting<'c, T>(pub(super) &'c Rendezvous<T, WaiterId>);

impl<T> Object<Offer<T, WaiterId>> for AtMeeting<'_, T> {
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<Offer<T, WaiterId>>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.0.lock(ThisThread::of(call)).leave(node) }
    }

    /// The message has been passed, so there is no wake to hand on.
    fn give_way(&self, _: InCall<'_>, _: u8) -> bool {
        false
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::new(WaitKind::Channel, self.0)
    }
}

/// Sends to a receiver that waits.
fn try_give<T>(
    call: InCall<'_>,
    channel: &Rendezvous<T, WaiterId>,
    message: T,
) -> Result<(), TrySendError<T>> {
    let slot = MeetingSlot::new(Some(message));
    match try_meet(call, channel, Side::Send, &slot) {
        Met::Yes => Ok(()),
        Met::Closed => Err(TrySendError::Disconnected(left(slot))),
        Met::No => Err(TrySendError::Full(left(slot))),
    }
}

/// Receives from a sender that waits.
fn try_take<T>(call: InCall<'_>, channel: &Rendezvous<T, WaiterId>) -> Result<T, TryRecvError> {
    let slot = MeetingSlot::new(None);
    match try_meet(call, channel, Side::Receive, &slot) {
        Met::Yes => Ok(left(slot)),
        Met::Closed => Err(TryRecvError::Disconnected),
        Met::No => Err(TryRecvError::Empty),
    }
}

/// Sends to a receiver, once there is one.
#[inline(always)]
fn give<T>(
    call: InCall<'_>,
    channel: &Rendezvous<T, WaiterId>,
    message: T,
    deadline: Deadline,
) -> Result<(), SendTimeoutError<T>> {
    let slot = MeetingSlot::new(Some(message));
    match meet(call, channel, Side::Send, &slot, "Sender::send", deadline) {
        Met::Yes => Ok(()),
        Met::Closed => Err(SendTimeoutError::Disconnected(left(slot))),
        Met::No => Err(SendTimeoutError::Timeout(left(slot))),
    }
}

/// Receives from a sender, once there is one.
#[inline(always)]
fn take<T>(
    call: InCall<'_>,
    channel: &Rendezvous<T, WaiterId>,
    deadline: Deadline,
) -> Result<T, RecvTimeoutError> {
    let slot = MeetingSlot::new(None);
    match meet(call, channel, Side::Receive, &slot, "Receiver::recv", deadline) {
        Met::Yes => Ok(left(slot)),
        Met::Closed => Err(RecvTimeoutError::Disconnected),
        Met::No => Err(RecvTimeoutError::Timeout),
    }
}

/// Outcome of an attempt to pass a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// The value has passed.
    Yes,
    /// No counterpart was there.
    No,
    /// The channel is closed, so no counterpart will come.
    Closed,
}

/// Passes a value between `slot` and that of a waiting party.
pub(super) fn try_meet<T>(
    call: InCall<'_>,
    channel: &Rendezvous<T, WaiterId>,
    side: Side,
    slot: &MeetingSlot<T>,
) -> Met {
    // SAFETY: the caller does not wait, so no waker gets the id.
    let party = Party::alone(unsafe { WaiterId::from_bits(0) });
    // SAFETY: the offer is never queued.
    let offer = unsafe { Offer::new(party, side, slot) };
    meet_now(call, channel, &offer)
}

fn meet_now<T>(
    call: InCall<'_>,
    channel: &Rendezvous<T, WaiterId>,
    offer: &Offer<T, WaiterId>,
) -> Met {
    let meeting = channel.lock(ThisThread::of(call)).meet(offer);
    finish_meeting(call, meeting)
}

/// Returns the outcome of a meeting, once the channel's lock is released.
pub(super) fn finish_meeting(call: InCall<'_>, meeting: Meeting<WaiterId>) -> Met {
    match meeting {
        Meeting::Met(waiter) => {
            wait::wake(call, waiter);
            Met::Yes
        }
        Meeting::Alone => Met::No,
        Meeting::Closed => Met::Closed,
    }
}

/// Passes a value between `slot` and that of another party, once there is one. Inlined, as it
/// returns after the context switch.
#[inline(always)]
fn meet<T>(
    call: InCall<'_>,
    channel: &Rendezvous<T, WaiterId>,
    side: Side,
    slot: &MeetingSlot<T>,
    operation: &str,
    deadline: Deadline,
) -> Met {
    let (waiter, is_last) = caller::unasked_and_last();
    // SAFETY: the slot is not accessed until the wait has ended.
    let node = Node::new(unsafe { Offer::new(Party::alone(waiter.id()), side, slot) });
    // SAFETY: the node is new, and stays in place until it has left or is claimed.
    let met = unsafe {
        if is_last {
            meet_or_enqueue::<T, true>(call, channel, &waiter, &node, operation)
        } else {
            meet_or_enqueue::<T, false>(call, channel, &waiter, &node, operation)
        }
    };
    if met != Met::No {
        return met;
    }
    if waiter.wait_inlined(call, &node, &AtMeeting(channel), deadline) == Ended::TimedOut {
        return Met::No;
    }
    // SAFETY: the node is claimed, so the slot belongs to this caller again.
    unsafe { outcome(&node.waiter()) }
}

/// Passes a value as [`try_meet`] does, but queues the caller's node if there is no counterpart.
///
/// # Safety
///
/// As for `LockedRendezvous::enqueue`; the slot of the offer stays as long.
unsafe fn meet_or_enqueue<T, const MAY_LOOK: bool>(
    call: InCall<'_>,
    channel: &Rendezvous<T, WaiterId>,
    waiter: &Waiter,
    node: &Node<Offer<T, WaiterId>>,
    operation: &str,
) -> Met {
    if waiter.may_be_refused() {
        // A caller that finds a counterpart does not have to wait.
        match meet_now(call, channel, &node.waiter()) {
            Met::No => waiter.ask(operation),
            met => return met,
        }
    }
    let mut queue = channel.lock(ThisThread::of(call));
    let meeting = queue.meet(&node.waiter());
    let looks = MAY_LOOK && meeting == Meeting::Alone && waiter.may_look_out(false);
    if looks {
        // SAFETY: passed on to the caller; queued below.
        unsafe { queue.look(node) };
    }
    if meeting == Meeting::Alone {
        // SAFETY: passed on to the caller.
        unsafe { queue.enqueue(NonNull::from(node)) };
    }
    drop(queue);
    if looks {
        return look_out(call, channel, waiter, node);
    }
    finish_meeting(call, meeting)
}

/// Looks for a party that meets the offer in `node`; returns [`Met::No`] if the caller has to wait.
#[cold]
#[inline(never)]
fn look_out<T>(
    call: InCall<'_>,
    channel: &Rendezvous<T, WaiterId>,
    waiter: &Waiter,
    node: &Node<Offer<T, WaiterId>>,
) -> Met {
    let is_claimed = || matches!(node.state(), NodeState::Claimed(_));
    // SAFETY: alive, and queued there to be looked at.
    let rests = || unsafe { channel.lock(ThisThread::of(call)).rest(NonNull::from(node)) };
    if !waiter.look_out(is_claimed) && rests() {
        return Met::No;
    }
    // SAFETY: claimed.
    unsafe { outcome(&node.waiter()) }
}

/// Returns the outcome of a claimed offer.
///
/// # Safety
///
/// The offer is the caller's, and was claimed.
pub(super) unsafe fn outcome<T>(offer: &Offer<T, WaiterId>) -> Met {
    // SAFETY: passed on to the caller.
    if unsafe { offer.has_met() } { Met::Yes } else { Met::Closed }
}

/// Returns the value in a slot that is known to be full.
fn left<T>(slot: MeetingSlot<T>) -> T {
    slot.into_inner().expect("the slot has a value")
}
