//! Operations on channels in a `select!`.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use daiko_core::channel::{MeetingSlot, Offer, Party, Rendezvous, Side, Stored};
use daiko_core::claim::Claim;
use daiko_core::fiber::WaiterId;
use daiko_core::wait::Node;

use super::any::{Any, AtMeeting, AtSide, Met, try_meet};
use super::{OneshotReceiver, Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError};
use crate::select::{Borrowed, Case, Look};
use daiko_rt::call::InCall;
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{Object, Waiter};

/// The queue entry of a waiting case.
enum CaseEntry<T> {
    Nowhere,
    Side(Node<Party<WaiterId>>),
    Offer(Node<Offer<T, WaiterId>>),
}

/// One operation on a channel of any kind.
struct Operation<'c, T> {
    channel: &'c Any<T>,
    side: Side,
    /// The message to be sent, or the place for the received message.
    slot: MeetingSlot<T>,
    place: RefCell<CaseEntry<T>>,
    /// True if a select was claimed with it, so that it is first in line.
    was_claimed: Cell<bool>,
    met: Cell<Met>,
}

impl<'c, T> Operation<'c, T> {
    fn new(channel: &'c Any<T>, side: Side, message: Option<T>) -> Self {
        let (slot, place) = (MeetingSlot::new(message), RefCell::new(CaseEntry::Nowhere));
        let (was_claimed, met) = (Cell::new(false), Cell::new(Met::No));
        Operation { channel, side, slot, place, was_claimed, met }
    }

    /// Returns the content of the slot, and puts `message` there. Only to be called while nothing
    /// is queued.
    fn replace(&self, message: Option<T>) -> Option<T> {
        debug_assert!(matches!(*self.place.borrow(), CaseEntry::Nowhere));
        // SAFETY: nothing is queued, and the operation is on one thread.
        unsafe { self.slot.replace(message) }
    }

    fn attempt_once(&self, call: InCall<'_>) -> Met {
        match (self.channel, self.side) {
            (Any::Rendezvous(channel), side) => try_meet(call, channel, side, &self.slot),
            (_, Side::Send) => self.try_send(call),
            (_, Side::Receive) => self.try_recv(call),
        }
    }

    fn try_send(&self, call: InCall<'_>) -> Met {
        let message = self.replace(None).expect("it was not sent yet");
        let (met, message) = match self.channel.try_send(call, message) {
            Ok(()) => return Met::Yes,
            Err(TrySendError::Full(message)) => (Met::No, message),
            Err(TrySendError::Disconnected(message)) => (Met::Closed, message),
        };
        self.replace(Some(message));
        met
    }

    fn try_recv(&self, call: InCall<'_>) -> Met {
        match self.channel.try_recv(call) {
            Ok(message) => {
                self.replace(Some(message));
                Met::Yes
            }
            Err(TryRecvError::Empty) => Met::No,
            Err(TryRecvError::Disconnected) => Met::Closed,
        }
    }

    /// Returns the operation's side of a channel that holds messages.
    fn at<'b, C>(&self, channel: &'b C) -> AtSide<'b, C> {
        AtSide { channel, side: self.side }
    }

    /// Queues it at that side; returns false if it need not wait.
    fn enqueue_side<C: Stored<WaiterId>>(
        &self,
        call: InCall<'_>,
        at: &AtSide<'_, C>,
        party: Party<WaiterId>,
    ) -> bool {
        *self.place.borrow_mut() = CaseEntry::Side(Node::new(party));
        let place = self.place.borrow();
        let CaseEntry::Side(node) = &*place else { unreachable!("just put there") };
        // SAFETY: a new node, which stays in place until `leave`: the contract of `Case::enqueue`.
        unsafe { at.enqueue(call, node, self.was_claimed.get()) }
    }

    fn leave_from<W>(&self, call: InCall<'_>, object: &impl Object<W>, node: &Node<W>) {
        // SAFETY: the node is alive, and in that queue if it is in any.
        let _ = unsafe { object.leave(call, NonNull::from(node)) };
    }

    /// Queues it at a rendezvous; returns false if a counterpart is there.
    fn enqueue_offer(
        &self,
        call: InCall<'_>,
        at: &Rendezvous<T, WaiterId>,
        party: Party<WaiterId>,
    ) -> bool {
        // SAFETY: the slot is not accessed until `leave`.
        let offer = unsafe { Offer::new(party, self.side, &self.slot) };
        *self.place.borrow_mut() = CaseEntry::Offer(Node::new(offer));
        let place = self.place.borrow();
        let CaseEntry::Offer(node) = &*place else { unreachable!("just put there") };
        let mut queue = at.lock(ThisThread::of(call));
        let waits = !queue.is_ready(&offer);
        if waits {
            // SAFETY: a new node, which stays in place until `leave`: `Case::enqueue`'s contract.
            unsafe { queue.enqueue(NonNull::from(node)) };
        }
        waits
    }
}

impl<T> Case for Operation<'_, T> {
    fn attempt(&self, call: InCall<'_>, _: Look) -> bool {
        self.met.set(self.attempt_once(call));
        self.met.get() != Met::No
    }

    unsafe fn enqueue(
        &self,
        call: InCall<'_>,
        waiter: WaiterId,
        claim: &Claim,
        outcome: u16,
    ) -> bool {
        // SAFETY: the claim stays until `leave`: this function's contract.
        let party = unsafe { Party::one_of(waiter, claim, outcome) };
        match self.channel {
            Any::Bounded(channel) => self.enqueue_side(call, &self.at(channel), party),
            Any::Unbounded(channel) => self.enqueue_side(call, &self.at(channel), party),
            Any::Rendezvous(channel) => self.enqueue_offer(call, channel, party),
        }
    }

    fn leave(&self, call: InCall<'_>, _: &Waiter, _: bool) {
        match (&*self.place.borrow(), self.channel) {
            (CaseEntry::Side(node), Any::Bounded(channel)) => {
                self.leave_from(call, &self.at(channel), node)
            }
            (CaseEntry::Side(node), Any::Unbounded(channel)) => {
                self.leave_from(call, &self.at(channel), node);
            }
            (CaseEntry::Offer(node), Any::Rendezvous(channel)) => {
                self.leave_from(call, &AtMeeting(channel), node)
            }
            _ => {}
        }
        *self.place.borrow_mut() = CaseEntry::Nowhere;
    }

    fn note_claim(&self) -> bool {
        self.was_claimed.set(true);
        let done = matches!(self.channel, Any::Rendezvous(_));
        if done {
            // SAFETY: nothing is queued, and the operation is on one thread.
            let is_full = unsafe { self.slot.is_full() };
            let has_passed = is_full == (self.side == Side::Receive);
            self.met.set(if has_passed { Met::Yes } else { Met::Closed });
        }
        done
    }

    fn give_way(&self, call: InCall<'_>) -> bool {
        match self.channel {
            Any::Bounded(channel) => self.at(channel).give_way(call, 0),
            Any::Unbounded(channel) => self.at(channel).give_way(call, 0),
            Any::Rendezvous(_) => false,
        }
    }

    fn order(&self) -> usize {
        std::ptr::from_ref(self.channel).addr()
    }
}

/// A receive in a select.
#[doc(hidden)]
pub struct Recv<'c, T>(Operation<'c, T>);

impl<T> Receiver<T> {
    /// Creates a receive for `select!`.
    #[doc(hidden)]
    pub fn select_recv(&self) -> Recv<'_, T> {
        Recv(Operation::new(&self.channel.any, Side::Receive, None))
    }
}

impl<T> Recv<'_, T> {
    /// Borrows the case for a select.
    pub fn borrow_case(&mut self) -> Borrowed<'_> {
        Borrowed::of(&mut self.0)
    }

    /// Returns the received message, if this is the case that was done.
    pub fn result(&self) -> Option<Result<T, RecvError>> {
        match self.0.met.get() {
            Met::No => None,
            Met::Yes => Some(self.0.replace(None).ok_or(RecvError)),
            Met::Closed => Some(Err(RecvError)),
        }
    }
}

/// A send in a select.
#[doc(hidden)]
pub struct SendCase<'c, T>(Operation<'c, T>);

impl<T> Sender<T> {
    /// Creates a send for `select!`.
    #[doc(hidden)]
    pub fn select_send(&self, message: T) -> SendCase<'_, T> {
        SendCase(Operation::new(&self.channel.any, Side::Send, Some(message)))
    }
}

impl<T> SendCase<'_, T> {
    /// Borrows the case for a select.
    pub fn borrow_case(&mut self) -> Borrowed<'_> {
        Borrowed::of(&mut self.0)
    }

    /// Returns the result of the send, if this is the case that was done.
    pub fn result(&self) -> Option<Result<(), SendError<T>>> {
        match self.0.met.get() {
            Met::No => None,
            Met::Yes => Some(Ok(())),
            Met::Closed => self.0.replace(None).map(|message| Err(SendError(message))),
        }
    }
}

/// A receive from a oneshot channel in a select.
#[doc(hidden)]
pub struct RecvOneshot<'c, T> {
    receiver: &'c OneshotReceiver<T>,
    node: RefCell<Option<Node<Party<WaiterId>>>>,
    result: Cell<Option<Result<T, RecvError>>>,
}

impl<T> OneshotReceiver<T> {
    /// Creates a receive for `select!`.
    #[doc(hidden)]
    pub fn select_recv(&self) -> RecvOneshot<'_, T> {
        RecvOneshot { receiver: self, node: RefCell::new(None), result: Cell::new(None) }
    }
}

impl<T> RecvOneshot<'_, T> {
    /// Borrows the case for a select.
    pub fn borrow_case(&mut self) -> Borrowed<'_> {
        Borrowed::of(self)
    }

    /// Returns the received message, if this is the case that was done.
    pub fn result(&self) -> Option<Result<T, RecvError>> {
        self.result.take()
    }
}

impl<T> Case for RecvOneshot<'_, T> {
    fn attempt(&self, _: InCall<'_>, _: Look) -> bool {
        let result = match self.receiver.try_recv() {
            Ok(message) => Some(Ok(message)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(RecvError)),
        };
        let done = result.is_some();
        self.result.set(result);
        done
    }

    unsafe fn enqueue(
        &self,
        call: InCall<'_>,
        waiter: WaiterId,
        claim: &Claim,
        outcome: u16,
    ) -> bool {
        let mut place = self.node.borrow_mut();
        // SAFETY: the claim stays until `leave`: this function's contract.
        let node = place.insert(Node::new(unsafe { Party::one_of(waiter, claim, outcome) }));
        // SAFETY: a new node, which stays in place until `leave`: this function's contract.
        unsafe { self.receiver.channel.enqueue(ThisThread::of(call), NonNull::from(&*node)) }
    }

    fn leave(&self, call: InCall<'_>, _: &Waiter, _: bool) {
        if let Some(node) = &*self.node.borrow() {
            // SAFETY: the node is alive, and in that queue if it is in any.
            let _ =
                unsafe { self.receiver.channel.leave(ThisThread::of(call), NonNull::from(node)) };
        }
        self.node.take();
    }

    fn note_claim(&self) -> bool {
        false
    }

    fn give_way(&self, _: InCall<'_>) -> bool {
        false
    }

    fn order(&self) -> usize {
        std::ptr::from_ref(&*self.receiver.channel).addr()
    }
}
