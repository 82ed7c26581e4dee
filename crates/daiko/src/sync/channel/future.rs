//! Sends and receives by futures: their nodes lie in the queues of the channels, among those of
//! fibers and threads.
//!
//! `core/notice/README.md` has the protocol of the wakers.

use std::fmt;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use daiko_core::channel::{Meeting, MeetingSlot, Offer, Party, Rendezvous, Side, Stored};
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::notice::HeldWaker;
use daiko_core::wait::{Node, NodeState};

use super::any::{
    Any, AtMeeting, AtSide, Met, finish_meeting, outcome, try_meet, try_recv, try_send,
};
use super::{Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError};
use daiko_rt::call::{Call, InCall};
use daiko_rt::fiber::waiter;
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::Object;

/// The place of a future in the queue of a channel.
///
/// It is pinned, and [left](Self::leave) before it is dropped.
pub(super) struct QueuePlace<W> {
    queued: Option<Queued<W>>,
    /// A waker had claimed the last wait, so the next one is first in line.
    was_claimed: bool,
}

struct Queued<W> {
    node: Node<W>,
    /// Belongs to the party that takes the node out of the queue.
    held: NonNull<HeldWaker>,
    /// The address of the data and of the functions of the held waker.
    task: (usize, usize),
    _pinned: PhantomPinned,
}

// SAFETY: the pointer is to memory that the future owns, or has lent to the queue; a `Waker` may be
// sent, and so may the node.
unsafe impl<W: Copy + Send> Send for QueuePlace<W> {}

fn task_of(waker: &Waker) -> (usize, usize) {
    (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

/// The state of the wait that an earlier poll began.
pub(super) enum Earlier {
    /// It lasts, and wakes the task that polls now.
    Lasts,
    /// There is none any more. The node was claimed, or was not.
    Over(bool),
}

impl<W: Copy> QueuePlace<W> {
    pub(super) const fn new() -> Self {
        QueuePlace { queued: None, was_claimed: false }
    }

    /// Looks at the wait of an earlier poll. If it would wake another task than `waker`, it is
    /// left.
    pub(super) fn look(&mut self, object: &impl Object<W>, waker: &Waker) -> Earlier {
        match &self.queued {
            // The held waker is alive at the look at the state. So, if the addresses are the same,
            // the waker is.
            Some(queued)
                if queued.node.state() == NodeState::Queued && queued.task == task_of(waker) =>
            {
                Earlier::Lasts
            }
            _ => Earlier::Over(self.take_out(object)),
        }
    }

    /// Takes the node out of the queue, if there is one. Returns true if it was claimed.
    fn take_out(&mut self, object: &impl Object<W>) -> bool {
        let Some(queued) = &self.queued else { return false };
        let (held, call) = (queued.held, Call::enter());
        // SAFETY: the node is alive, and `wait` has put it into the queue of the same object.
        let unlinked = unsafe { object.leave(call.token(), NonNull::from(&queued.node)) };
        drop(call);
        self.queued = None;
        if unlinked == Unlinked::Mine {
            // SAFETY: the id was taken out of the queue, so the memory is this future's.
            drop(unsafe { HeldWaker::take(held) });
        }
        self.was_claimed = unlinked == Unlinked::AlreadyGone;
        self.was_claimed
    }

    /// Waits by a clone of `waker`: `enqueue` puts the node, of the waiter that `of` makes, into
    /// the queue, or returns the reason why not. No earlier wait lasts.
    ///
    /// # Safety
    ///
    /// This is pinned. `enqueue` puts the node into the queue of the object that
    /// [`look`](Self::look) and [`leave`](Self::leave) get, if it returns `None`.
    pub(super) unsafe fn wait<R>(
        &mut self,
        waker: &Waker,
        of: impl FnOnce(WaiterId) -> W,
        enqueue: impl FnOnce(InCall<'_>, &Node<W>, bool) -> Option<R>,
    ) -> Poll<R> {
        // The clone, and the drop below, are code of users: outside the section.
        let waker = waker.clone();
        let task = task_of(&waker);
        let held = HeldWaker::allocate(waker);
        // SAFETY: the memory goes with the node, in which the id lies, to the party that takes the
        // node out of the queue.
        let id = unsafe { waiter::waker_id(held) };
        let node = Node::new(of(id));
        let queued = self.queued.insert(Queued { node, held, task, _pinned: PhantomPinned });
        let call = Call::enter();
        let result = enqueue(call.token(), &queued.node, self.was_claimed);
        drop(call);
        let Some(result) = result else { return Poll::Pending };
        self.queued = None;
        // SAFETY: the node is in no queue, so the memory is this future's.
        drop(unsafe { HeldWaker::take(held) });
        Poll::Ready(result)
    }

    /// Ends the wait, if there is one, and passes the wake on if it was claimed.
    pub(super) fn leave(&mut self, object: &impl Object<W>) {
        if self.take_out(object) {
            let call = Call::enter();
            // A wake that is of no use to another waiter has done its work.
            let _ = object.give_way(call.token(), 0);
        }
    }
}

/// Polls an operation at one side of a channel that holds messages. `attempt` tries it, and returns
/// `None` if it has to wait.
///
/// # Safety
///
/// `place` is pinned, and used for this channel and side only.
unsafe fn poll_stored<C: Stored<WaiterId>, R>(
    place: &mut QueuePlace<Party<WaiterId>>,
    side: &AtSide<'_, C>,
    waker: &Waker,
    mut attempt: impl FnMut(InCall<'_>) -> Option<R>,
) -> Poll<R> {
    loop {
        if let Earlier::Lasts = place.look(side, waker) {
            return Poll::Pending;
        }
        if let Some(result) = daiko_rt::in_call!(|call| attempt(call)) {
            return Poll::Ready(result);
        }
        let enqueue = |call: InCall<'_>, node: &Node<_>, was_claimed| {
            // SAFETY: the node is in no queue, and is pinned until it has left or is claimed.
            let queued = unsafe { side.enqueue(call, node, was_claimed) };
            (!queued).then_some(())
        };
        // SAFETY: pinned, and for this channel and side: this function's contract.
        if unsafe { place.wait(waker, Party::alone, enqueue) }.is_pending() {
            return Poll::Pending;
        }
    }
}

/// A wait at a rendezvous: the slot is in the offer, and so pinned with the place.
struct Meet<T> {
    place: QueuePlace<Offer<T, WaiterId>>,
    slot: MeetingSlot<T>,
}

impl<T> Meet<T> {
    fn new(message: Option<T>) -> Self {
        Meet { place: QueuePlace::new(), slot: MeetingSlot::new(message) }
    }

    /// Returns the content of the slot, once no offer is queued.
    fn take(&mut self) -> Option<T> {
        std::mem::replace(&mut self.slot, MeetingSlot::new(None)).into_inner()
    }

    /// Meets a party of the other side.
    ///
    /// # Safety
    ///
    /// This is pinned, and used for this channel and side only.
    unsafe fn poll(
        &mut self,
        channel: &Rendezvous<T, WaiterId>,
        side: Side,
        waker: &Waker,
    ) -> Poll<Met> {
        match self.place.look(&AtMeeting(channel), waker) {
            Earlier::Lasts => return Poll::Pending,
            Earlier::Over(true) => {
                // SAFETY: nothing is done by the party's id, and the offer, which is as that of the
                // claimed node, is the caller's.
                let claimed = unsafe { Offer::new(Party::alone(no_waiter()), side, &self.slot) };
                // SAFETY: as above.
                return Poll::Ready(unsafe { outcome(&claimed) });
            }
            Earlier::Over(false) => {}
        }
        match daiko_rt::in_call!(|call| try_meet(call, channel, side, &self.slot)) {
            Met::No => {}
            met => return Poll::Ready(met),
        }
        let slot = &self.slot;
        // SAFETY: the slot is pinned with the place, and is not accessed until the wait has ended.
        let offer = |id| unsafe { Offer::new(Party::alone(id), side, slot) };
        let enqueue = |call: InCall<'_>, node: &Node<_>, _| {
            let mut queue = channel.lock(ThisThread::of(call));
            let meeting = queue.meet(&node.waiter());
            if meeting == Meeting::Alone {
                // SAFETY: the node is in no queue, and is pinned until it has left or is claimed.
                unsafe { queue.enqueue(NonNull::from(node)) };
                return None;
            }
            drop(queue);
            Some(finish_meeting(call, meeting))
        };
        // SAFETY: pinned, and for this channel: this function's contract.
        unsafe { self.place.wait(waker, offer, enqueue) }
    }
}

/// Returns the id of a party that does not wait.
fn no_waiter() -> WaiterId {
    // SAFETY: the caller publishes it nowhere, so no waker gets it.
    unsafe { WaiterId::from_bits(0) }
}

/// A wait at a channel of any kind.
enum At<T> {
    Stored(QueuePlace<Party<WaiterId>>, Option<T>),
    Meets(Meet<T>),
}

impl<T> At<T> {
    fn new(channel: &Any<T>, message: Option<T>) -> Self {
        match channel {
            Any::Rendezvous(_) => At::Meets(Meet::new(message)),
            Any::Bounded(_) | Any::Unbounded(_) => At::Stored(QueuePlace::new(), message),
        }
    }

    fn leave(&mut self, channel: &Any<T>, side: Side) {
        match (self, channel) {
            (At::Stored(place, _), Any::Bounded(channel)) => {
                place.leave(&AtSide { channel, side });
            }
            (At::Stored(place, _), Any::Unbounded(channel)) => {
                place.leave(&AtSide { channel, side });
            }
            (At::Meets(meet), Any::Rendezvous(channel)) => {
                meet.place.leave(&AtMeeting(channel));
            }
            _ => unreachable!("made for this channel"),
        }
    }
}

/// The future of [`Receiver::recv_async`].
#[must_use = "a future does nothing before it is polled"]
pub struct RecvFuture<'r, T> {
    receiver: &'r Receiver<T>,
    at: At<T>,
}

/// The future of [`Sender::send_async`].
#[must_use = "a future does nothing before it is polled"]
pub struct SendFuture<'s, T> {
    sender: &'s Sender<T>,
    at: At<T>,
    was_ready: bool,
}

impl<'r, T> RecvFuture<'r, T> {
    pub(super) fn new(receiver: &'r Receiver<T>) -> Self {
        RecvFuture { receiver, at: At::new(&receiver.channel.any, None) }
    }
}

impl<'s, T> SendFuture<'s, T> {
    pub(super) fn new(sender: &'s Sender<T>, message: T) -> Self {
        SendFuture { sender, at: At::new(&sender.channel.any, Some(message)), was_ready: false }
    }
}

impl<T> Future for RecvFuture<'_, T> {
    type Output = Result<T, RecvError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is moved out of the places.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: pinned, and used for this channel and side only.
        unsafe { poll_recv(&mut this.at, &this.receiver.channel.any, context.waker()) }
    }
}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is moved out of the places.
        let this = unsafe { self.get_unchecked_mut() };
        assert!(!this.was_ready, "daiko: a SendFuture was polled after it was ready");
        // SAFETY: pinned, and used for this channel and side only. It has a message.
        let poll = unsafe { poll_send(&mut this.at, &this.sender.channel.any, context.waker()) };
        this.was_ready = poll.is_ready();
        poll
    }
}

/// Polls a receive.
///
/// # Safety
///
/// `at` is pinned, and used for receives from this channel only.
unsafe fn poll_recv<T>(
    at: &mut At<T>,
    channel: &Any<T>,
    waker: &Waker,
) -> Poll<Result<T, RecvError>> {
    /// Returns `None` if there is no message.
    fn receive<C: Stored<WaiterId>>(
        call: InCall<'_>,
        channel: &C,
    ) -> Option<Result<C::Value, RecvError>> {
        match try_recv(call, channel) {
            Err(TryRecvError::Empty) => None,
            received => Some(received.map_err(|_| RecvError)),
        }
    }
    let side = Side::Receive;
    match (at, channel) {
        (At::Stored(place, _), Any::Bounded(channel)) => {
            // SAFETY: passed on to the caller.
            unsafe {
                poll_stored(place, &AtSide { channel, side }, waker, |call| receive(call, channel))
            }
        }
        (At::Stored(place, _), Any::Unbounded(channel)) => {
            // SAFETY: passed on to the caller.
            unsafe {
                poll_stored(place, &AtSide { channel, side }, waker, |call| receive(call, channel))
            }
        }
        (At::Meets(meet), Any::Rendezvous(channel)) => {
            // SAFETY: passed on to the caller.
            unsafe { meet.poll(channel, side, waker) }.map(|_| meet.take().ok_or(RecvError))
        }
        _ => unreachable!("made for this channel"),
    }
}

/// Polls a send.
///
/// # Safety
///
/// `at` is pinned, and used for sends to this channel only. It was not ready before.
unsafe fn poll_send<T>(
    at: &mut At<T>,
    channel: &Any<T>,
    waker: &Waker,
) -> Poll<Result<(), SendError<T>>> {
    /// Returns `None` if there is no room.
    fn send<C: Stored<WaiterId>>(
        call: InCall<'_>,
        channel: &C,
        message: &mut Option<C::Value>,
    ) -> Option<Result<(), SendError<C::Value>>> {
        let sent = message.take().expect("not sent before");
        match try_send(call, channel, sent) {
            Ok(()) => Some(Ok(())),
            Err(TrySendError::Disconnected(back)) => Some(Err(SendError(back))),
            Err(TrySendError::Full(back)) => {
                *message = Some(back);
                None
            }
        }
    }
    let side = Side::Send;
    match (at, channel) {
        (At::Stored(place, message), Any::Bounded(channel)) => {
            let attempt = |call: InCall<'_>| send(call, channel, message);
            // SAFETY: passed on to the caller.
            unsafe { poll_stored(place, &AtSide { channel, side }, waker, attempt) }
        }
        (At::Stored(place, message), Any::Unbounded(channel)) => {
            let attempt = |call: InCall<'_>| send(call, channel, message);
            // SAFETY: passed on to the caller.
            unsafe { poll_stored(place, &AtSide { channel, side }, waker, attempt) }
        }
        (At::Meets(meet), Any::Rendezvous(channel)) => {
            // SAFETY: passed on to the caller.
            let met = unsafe { meet.poll(channel, side, waker) };
            met.map(|_| meet.take().map_or(Ok(()), |back| Err(SendError(back))))
        }
        _ => unreachable!("made for this channel"),
    }
}

impl<T> Drop for RecvFuture<'_, T> {
    fn drop(&mut self) {
        self.at.leave(&self.receiver.channel.any, Side::Receive);
    }
}

impl<T> Drop for SendFuture<'_, T> {
    fn drop(&mut self) {
        self.at.leave(&self.sender.channel.any, Side::Send);
    }
}

impl<T> fmt::Debug for RecvFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvFuture").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SendFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFuture").finish_non_exhaustive()
    }
}
