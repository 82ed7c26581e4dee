//! Waiting for the first of several operations.

use crate::caller;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::time::Duration;

use daiko_core::channel::{MeetingSlot, Offer, Party, Rendezvous, Side, Stored};
use daiko_core::claim::Claim;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::wait::Node;

use super::any::{Any, AtMeeting, AtSide, Met, try_meet};
use super::random::shuffle;
use super::{OneshotReceiver, Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError};
use daiko_rt::Deadline;
use daiko_rt::call::{Call, InCall};
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{Ended, Object, Wait, Waiter};

/// Waits for the first of several operations on channels, and runs its body.
///
/// - `recv(receiver) -> message => ..` receives: `message` is the result of [`Receiver::recv`]. An
///   [`OneshotReceiver`] can be received from as well.
/// - `send(sender, value) -> sent => ..` sends: `sent` is the result of [`Sender::send`]. The value
///   is made before the wait, and dropped if another operation comes first.
/// - `default => ..` runs if none is possible at once, `default(timeout) => ..` if none is possible
///   within the timeout.
///
/// If several operations are possible, one is taken at random, each with the same probability. A
/// waiter queues at each of the channels. If it is woken at one of them, but another thread was
/// faster, it becomes the first in line there, and the last at the other channels. Operations on a
/// channel without the other end are possible: they give an error. A select with neither an
/// operation nor `default` does not compile.
///
/// ```
/// use daiko::sync::channel;
/// use std::time::Duration;
///
/// daiko::run(|| {
///     let (numbers, number) = channel::bounded(1);
///     let (stop, stopped) = channel::oneshot();
///     let counter = daiko::spawn(move || {
///         let mut sum = 0;
///         loop {
///             daiko::select! {
///                 recv(number) -> number => sum += number.unwrap_or(0),
///                 recv(stopped) -> _ => return sum,
///                 default(Duration::from_secs(3600)) => panic!("an hour without a number"),
///             }
///         }
///     });
///     (1..=3).for_each(|number| numbers.send(number).unwrap());
///     while !numbers.is_empty() {
///         daiko::yield_now();
///     }
///     stop.send(()).unwrap();
///     assert_eq!(counter.join().unwrap(), 6);
/// });
/// ```
///
/// # Panics
///
/// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
/// [`Poller`](crate::agent::Poller).
#[macro_export]
macro_rules! select {
    // All cases are present. Each has a name, its constructor, the pattern of its result, and its
    // body.
    (@run [$(($case:ident, $make:expr, $result:pat, $body:expr))+] ($patience:expr) $default:expr) => {{
        // When a body runs, no case is borrowed any more, and unsent messages have been dropped.
        let ($($case,)+) = {
            $(let mut $case = $make;)+
            $crate::sync::channel::select([$($case.borrow_case()),+], $patience);
            ($($case.result(),)+)
        };
        $(if let Some(result) = $case {
            let $result = result;
            $body
        } else)+ {
            $default
        }
    }};
    (@case [$($cases:tt)*]) => {
        $crate::select!(@run [$($cases)*] ($crate::sync::channel::Patience::Endless)
            unreachable!("daiko: a select ended without a case"))
    };
    (@case [$($cases:tt)*] default => $body:expr $(,)?) => {
        $crate::select!(@run [$($cases)*] ($crate::sync::channel::Patience::None) $body)
    };
    (@case [$($cases:tt)*] default($timeout:expr) => $body:expr $(,)?) => {
        $crate::select!(@run [$($cases)*] ($crate::sync::channel::Patience::For($timeout)) $body)
    };
    (@case [$($cases:tt)*] recv($receiver:expr) -> $result:pat => $($rest:tt)+) => {
        $crate::select!(@body [$($cases)*]
            (case, $receiver.select_recv(), $result) $($rest)+)
    };
    (@case [$($cases:tt)*] send($sender:expr, $value:expr) -> $result:pat => $($rest:tt)+) => {
        $crate::select!(@body [$($cases)*]
            (case, $sender.select_send($value), $result) $($rest)+)
    };
    (@body [$($cases:tt)*] ($($case:tt)+) $body:block, $($rest:tt)*) => {
        $crate::select!(@case [$($cases)* ($($case)+, $body)] $($rest)*)
    };
    (@body [$($cases:tt)*] ($($case:tt)+) $body:block $($rest:tt)*) => {
        $crate::select!(@case [$($cases)* ($($case)+, $body)] $($rest)*)
    };
    (@body [$($cases:tt)*] ($($case:tt)+) $body:expr, $($rest:tt)*) => {
        $crate::select!(@case [$($cases)* ($($case)+, $body)] $($rest)*)
    };
    (@body [$($cases:tt)*] ($($case:tt)+) $body:expr) => {
        $crate::select!(@case [$($cases)* ($($case)+, $body)])
    };
    (@ $($other:tt)*) => {
        compile_error!("expected `recv(receiver) -> pattern => body`, \
            `send(sender, value) -> pattern => body`, `default => body` or `default(timeout) => body`")
    };
    ($($cases:tt)+) => { $crate::select!(@case [] $($cases)+) };
}

/// How long a select waits.
#[doc(hidden)]
pub enum Patience {
    None,
    For(Duration),
    Endless,
}

/// An operation that a select borrows exclusively. No other select can queue it meanwhile, and no
/// select can queue it twice.
#[doc(hidden)]
pub struct Borrowed<'s>(&'s mut (dyn Case + 's));

/// One operation of a select.
trait Case {
    /// Performs the operation if that is possible at once; returns true if it is done.
    fn attempt(&self, call: InCall<'_>) -> bool;

    /// Queues it, under `waiter` and as `outcome` of `claim`; returns false if it is possible now.
    ///
    /// # Safety
    ///
    /// Both the case and the claim stay in place until [`leave`](Self::leave), and the case is not
    /// queued again before.
    unsafe fn enqueue(
        &self,
        call: InCall<'_>,
        waiter: WaiterId,
        claim: &Claim,
        outcome: u16,
    ) -> bool;

    /// Takes it out of its queue, if it is queued.
    fn leave(&self, call: InCall<'_>);

    /// Records that the select was claimed with this case; called after [`leave`](Self::leave).
    /// Returns true if the claim has completed the operation. Otherwise the case is first in line
    /// from now on, as another thread may be faster.
    fn note_claim(&self) -> bool;

    /// Passes on an unused wake that the case was claimed with.
    #[must_use]
    fn give_way(&self, call: InCall<'_>) -> bool;

    /// Returns the key by which selects order their cases. As all selects queue in this order, one
    /// of two selects that wait for each other finds the other.
    fn order(&self) -> usize;
}

/// A wait for the first of several cases.
struct Selecting<'s, 'c> {
    call: InCall<'s>,
    cases: &'s [Borrowed<'c>],
    claim: &'s Claim,
    /// The outcome that it was claimed with.
    outcome: &'s Cell<Option<u16>>,
}

impl Selecting<'_, '_> {
    /// Queues all cases; returns false if one is possible now.
    fn enqueue(&self, call: InCall<'_>, waiter: WaiterId) -> bool {
        let mut cases = self.cases.iter().enumerate();
        // SAFETY: both stay in place while `self` lives, and its drop takes all cases out. A case
        // is queued once, as it is borrowed exclusively.
        cases.all(|(index, case)| unsafe { case.0.enqueue(call, waiter, self.claim, index as u16) })
    }

    fn close(&self) -> Option<u16> {
        let outcome = self.claim.close();
        if outcome.is_some() {
            self.outcome.set(outcome);
        }
        self.outcome.get()
    }
}

impl Wait for Selecting<'_, '_> {
    fn leave(&self, _: InCall<'_>) -> Unlinked {
        if self.close().is_some() { Unlinked::AlreadyGone } else { Unlinked::Mine }
    }

    fn note(&self) -> u8 {
        0
    }

    fn give_way(&self, call: InCall<'_>, _: u8) -> bool {
        self.close().is_none_or(|index| self.cases[usize::from(index)].0.give_way(call))
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::of(WaitKind::Select)
    }
}

impl Drop for Selecting<'_, '_> {
    fn drop(&mut self) {
        self.cases.iter().for_each(|case| case.0.leave(self.call));
    }
}

/// Performs one of the cases, or none if the time is over.
///
/// ```
/// use daiko::sync::channel::{self, Patience, select};
///
/// let (_sender, receiver) = channel::bounded::<u64>(1);
/// let [mut one, mut other] = [receiver.select_recv(), receiver.select_recv()];
/// select([one.borrow_case(), other.borrow_case()], Patience::None);
/// assert!(one.result().is_none() && other.result().is_none());
/// ```
///
/// # Misuse that does not compile
///
/// One case twice, as the second node would overwrite the first one in its channel's queue:
///
/// ```compile_fail,E0499
/// use daiko::sync::channel::{self, Patience, select};
///
/// let (_sender, receiver) = channel::bounded::<u64>(1);
/// let mut case = receiver.select_recv();
/// select([case.borrow_case(), case.borrow_case()], Patience::None);
/// ```
///
/// ```compile_fail,E0308
/// use daiko::sync::channel::{self, Patience, select};
///
/// let (_sender, receiver) = channel::bounded::<u64>(1);
/// let case = receiver.select_recv();
/// select(&mut [&case, &case], Patience::None);
/// ```
///
/// One case in the selects of several fibers:
///
/// ```compile_fail,E0596
/// use daiko::sync::channel::{self, Patience, select};
/// use std::rc::Rc;
///
/// let (_sender, receiver) = channel::bounded::<u64>(1);
/// let case = Rc::new(receiver.select_recv());
/// select([case.borrow_case()], Patience::None);
/// ```
#[doc(hidden)]
#[inline]
pub fn select<const N: usize>(mut cases: [Borrowed<'_>; N], patience: Patience) {
    const { assert!(N > 0 && N <= 1 << u16::BITS, "a case is known by an outcome of a claim") };
    select_among(&mut cases, patience);
}

fn select_among(cases: &mut [Borrowed<'_>], patience: Patience) {
    let call = Call::enter();
    let call = call.token();
    if attempt(call, cases) {
        return;
    }
    let deadline = match patience {
        Patience::None => return,
        Patience::For(timeout) => Deadline::after(timeout),
        Patience::Endless => Deadline::NEVER,
    };
    let waiter = caller::waiter("select!");
    loop {
        cases.sort_unstable_by_key(|case| case.0.order());
        if wait_once(call, cases, &waiter, deadline) || attempt(call, cases) {
            return;
        }
    }
}

/// Performs the first case that is possible at once, in a random order, so that each of those that
/// are possible is performed as often as the others.
fn attempt(call: InCall<'_>, cases: &mut [Borrowed<'_>]) -> bool {
    shuffle(cases);
    cases.iter().any(|case| case.0.attempt(call))
}

/// Waits until a case is done, or the time is over; returns false if one may be possible now.
fn wait_once(
    call: InCall<'_>,
    cases: &[Borrowed<'_>],
    waiter: &Waiter,
    deadline: Deadline,
) -> bool {
    let (claim, outcome) = (Claim::new(), Cell::new(None));
    let selecting = Selecting { call, cases, claim: &claim, outcome: &outcome };
    let queued = selecting.enqueue(call, waiter.id());
    let ended = match queued {
        true => Some(waiter.wait_for(call, &selecting, deadline)),
        false => None,
    };
    let claimed = selecting.close();
    if !queued && claimed.is_some() {
        waiter.absorb_wake(call);
    }
    drop(selecting);
    match claimed {
        Some(index) => finish(call, &*cases[usize::from(index)].0),
        None => ended == Some(Ended::TimedOut),
    }
}

/// Returns true if the select's claim with this case completed it. If not, another thread took the
/// message or room of the claim. The next message or room claims another waiter, so the wake is
/// used up.
fn finish(call: InCall<'_>, case: &dyn Case) -> bool {
    case.note_claim() || case.attempt(call)
}

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
    fn attempt(&self, call: InCall<'_>) -> bool {
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

    fn leave(&self, call: InCall<'_>) {
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
        Borrowed(&mut self.0)
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
        Borrowed(&mut self.0)
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
        Borrowed(self)
    }

    /// Returns the received message, if this is the case that was done.
    pub fn result(&self) -> Option<Result<T, RecvError>> {
        self.result.take()
    }
}

impl<T> Case for RecvOneshot<'_, T> {
    fn attempt(&self, _: InCall<'_>) -> bool {
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

    fn leave(&self, call: InCall<'_>) {
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
