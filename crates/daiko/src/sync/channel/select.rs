//! Waiting for the first of several operations.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::time::Duration;

use daiko_core::channel::{Buffer, Buffered, Offer, Party, Rendezvous, Side, Slot};
use daiko_core::claim::Claim;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::wait::Node;
use daiko_sys::clock;

use super::any::{Any, AtMeeting, AtSide, Met, try_meet};
use super::{OneshotReceiver, Receiver, RecvError, SendError, Sender, TryRecvError, TrySendError};
use daiko_rt::deadlock::{Kind, Target};
use daiko_rt::process;
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{Deadline, Ended, Object, Wait, Waiter};

/// Waits for the first of several operations on channels, and runs what belongs to it.
///
/// - `recv(receiver) -> message => ..` receives: `message` is what [`Receiver::recv`] gives. An
///   [`OneshotReceiver`] can be received from as well.
/// - `send(sender, value) -> sent => ..` sends: `sent` is what [`Sender::send`] gives. The value is made
///   before the wait, and dropped where another operation comes first.
/// - `default => ..` if none is possible at once, or `default(timeout) => ..` if none is for so long.
///
/// Of several that are possible, a random one is taken. Who waits does so in line at each of the channels.
/// If he is woken at one, and somebody who came by was faster, he is first in line there again, and last
/// at the others. Operations on a channel without the other
/// end are possible: they give an error. With neither an operation nor `default`, it does not compile.
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
    // All cases are there: each as a name of its own, how it is made, the pattern of its result, its body.
    (@run [$(($case:ident, $make:expr, $result:pat, $body:expr))+] ($patience:expr) $default:expr) => {{
        // When a body runs, nothing is borrowed any more, and what was not sent is dropped.
        let ($($case,)+) = {
            $(let $case = $make;)+
            $crate::sync::channel::select(&mut [$(&$case),+], $patience);
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

/// One operation of a select.
#[doc(hidden)]
pub trait Case {
    /// Does it if that is possible at once; true if it is done.
    fn attempt(&self) -> bool;

    /// Queues it, under `waiter` and as `outcome` of `claim`; false if it is possible now.
    ///
    /// # Safety
    ///
    /// Both the case and the claim stay in place until [`leave`](Self::leave).
    unsafe fn enqueue(&self, waiter: WaiterId, claim: &Claim, outcome: u16) -> bool;

    /// Takes it out of its queue, if it is in one.
    fn leave(&self);

    /// By a select that was claimed with it, after [`leave`](Self::leave): true if it is done by that.
    /// Otherwise it is first in line from now on, as somebody else may be faster.
    fn note_claim(&self) -> bool;

    /// Gives a wake that it was claimed with, and does not use, to somebody else.
    #[must_use]
    fn give_way(&self) -> bool;

    /// Selects queue their cases in this order, so that of two that wait for each other one finds the other.
    fn order(&self) -> usize;
}

/// A wait for the first of several cases.
struct Selecting<'s, 'c> {
    cases: &'s [&'c dyn Case],
    claim: &'s Claim,
    /// What it was claimed with.
    outcome: &'s Cell<Option<u16>>,
}

impl Selecting<'_, '_> {
    /// Queues all cases; false if one is possible now.
    fn enqueue(&self, waiter: WaiterId) -> bool {
        let mut cases = self.cases.iter().enumerate();
        // SAFETY: both stay in place while `self` lives, whose drop takes all out.
        cases.all(|(index, case)| unsafe { case.enqueue(waiter, self.claim, index as u16) })
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
    fn leave(&self) -> Unlinked {
        if self.close().is_some() { Unlinked::AlreadyGone } else { Unlinked::Mine }
    }

    fn note(&self) -> u8 {
        0
    }

    fn give_way(&self, _: u8) -> bool {
        self.close().is_none_or(|index| self.cases[usize::from(index)].give_way())
    }

    fn target(&self) -> Target {
        Target::of(Kind::Select)
    }
}

impl Drop for Selecting<'_, '_> {
    fn drop(&mut self) {
        self.cases.iter().for_each(|case| case.leave());
    }
}

/// Does one of the cases, or none if the time is over.
#[doc(hidden)]
pub fn select(cases: &mut [&dyn Case], patience: Patience) {
    let _call = process::call();
    let start = clock::monotonic_ns() as usize % cases.len();
    if attempt(cases, start) {
        return;
    }
    let deadline = match patience {
        Patience::None => return,
        Patience::For(timeout) => Deadline::after(timeout),
        Patience::Endless => Deadline::NEVER,
    };
    cases.sort_by_key(|case| case.order());
    let waiter = Waiter::caller("select!");
    while !wait_once(cases, &waiter, deadline) && !attempt(cases, start) {}
}

/// Does the first case that is possible at once, from number `start` on.
fn attempt(cases: &[&dyn Case], start: usize) -> bool {
    let (behind, first) = cases.split_at(start);
    first.iter().chain(behind).any(|case| case.attempt())
}

/// Waits until a case is done, or the time is over; false if one may be possible now.
fn wait_once(cases: &[&dyn Case], waiter: &Waiter, deadline: Deadline) -> bool {
    let (claim, outcome) = (Claim::new(), Cell::new(None));
    let selecting = Selecting { cases, claim: &claim, outcome: &outcome };
    let queued = selecting.enqueue(waiter.id());
    let ended = match queued {
        true => Some(waiter.wait_for(&selecting, deadline)),
        false => None,
    };
    let claimed = selecting.close();
    if !queued && claimed.is_some() {
        waiter.absorb_wake();
    }
    drop(selecting);
    match claimed {
        Some(index) => finish(cases[usize::from(index)]),
        None => ended == Some(Ended::TimedOut),
    }
}

/// After a claim with this case: whether it is done. If it is not, what it was claimed for is somebody
/// else's, and with the next that comes another will be claimed: so the wake is used up.
fn finish(case: &dyn Case) -> bool {
    case.note_claim() || case.attempt()
}

/// Where a case waits.
enum Place<T> {
    Nowhere,
    Side(Node<Party<WaiterId>>),
    Offer(Node<Offer<T, WaiterId>>),
}

/// One operation on a channel of any kind.
struct Operation<'c, T> {
    channel: &'c Any<T>,
    side: Side,
    /// The message to be sent, or where it is received.
    slot: Slot<T>,
    place: RefCell<Place<T>>,
    /// Whether a select was claimed with it: it is the first in line then.
    was_claimed: Cell<bool>,
    met: Cell<Met>,
}

impl<'c, T> Operation<'c, T> {
    fn new(channel: &'c Any<T>, side: Side, message: Option<T>) -> Self {
        let (slot, place) = (Slot::new(message), RefCell::new(Place::Nowhere));
        let (was_claimed, met) = (Cell::new(false), Cell::new(Met::No));
        Operation { channel, side, slot, place, was_claimed, met }
    }

    /// What is in the slot, and puts `message` there. Only while nothing is queued.
    fn replace(&self, message: Option<T>) -> Option<T> {
        debug_assert!(matches!(*self.place.borrow(), Place::Nowhere));
        // SAFETY: nothing is queued, and the operation is on one thread.
        unsafe { self.slot.replace(message) }
    }

    fn attempt_once(&self) -> Met {
        match (self.channel, self.side) {
            (Any::Rendezvous(channel), side) => try_meet(channel, side, &self.slot),
            (_, Side::Send) => self.try_send(),
            (_, Side::Receive) => self.try_recv(),
        }
    }

    fn try_send(&self) -> Met {
        let message = self.replace(None).expect("it was not sent yet");
        let (met, message) = match self.channel.try_send(message) {
            Ok(()) => return Met::Yes,
            Err(TrySendError::Full(message)) => (Met::No, message),
            Err(TrySendError::Disconnected(message)) => (Met::Closed, message),
        };
        self.replace(Some(message));
        met
    }

    fn try_recv(&self) -> Met {
        match self.channel.try_recv() {
            Ok(message) => {
                self.replace(Some(message));
                Met::Yes
            }
            Err(TryRecvError::Empty) => Met::No,
            Err(TryRecvError::Disconnected) => Met::Closed,
        }
    }

    /// Its side of a channel with room.
    fn at<'b, B>(&self, channel: &'b Buffered<B, WaiterId>) -> AtSide<'b, B> {
        AtSide { channel, side: self.side }
    }

    /// Queues it at that side; false if it need not wait.
    fn enqueue_side<B: Buffer>(&self, at: &AtSide<'_, B>, party: Party<WaiterId>) -> bool {
        *self.place.borrow_mut() = Place::Side(Node::new(party));
        let place = self.place.borrow();
        let Place::Side(node) = &*place else { unreachable!("just put there") };
        // SAFETY: a new node, which stays in place until `leave`: the contract of `Case::enqueue`.
        unsafe { at.enqueue(node, self.was_claimed.get()) }
    }

    fn leave_from<W>(&self, object: &impl Object<W>, node: &Node<W>) {
        // SAFETY: alive, and in that queue if it is in one.
        let _ = unsafe { object.leave(NonNull::from(node)) };
    }

    /// Queues it at a rendezvous; false if somebody is there.
    fn enqueue_offer(&self, at: &Rendezvous<T, WaiterId>, party: Party<WaiterId>) -> bool {
        // SAFETY: the slot is left alone until `leave`.
        let offer = unsafe { Offer::new(party, self.side, &self.slot) };
        *self.place.borrow_mut() = Place::Offer(Node::new(offer));
        let place = self.place.borrow();
        let Place::Offer(node) = &*place else { unreachable!("just put there") };
        let mut queue = at.lock(&ThisThread);
        let waits = !queue.is_ready(&offer);
        if waits {
            // SAFETY: a new node, which stays in place until `leave`: the contract of `Case::enqueue`.
            unsafe { queue.enqueue(NonNull::from(node)) };
        }
        waits
    }
}

impl<T> Case for Operation<'_, T> {
    fn attempt(&self) -> bool {
        self.met.set(self.attempt_once());
        self.met.get() != Met::No
    }

    unsafe fn enqueue(&self, waiter: WaiterId, claim: &Claim, outcome: u16) -> bool {
        // SAFETY: the claim stays until `leave`: this function's contract.
        let party = unsafe { Party::one_of(waiter, claim, outcome) };
        match self.channel {
            Any::Bounded(channel) => self.enqueue_side(&self.at(channel), party),
            Any::Unbounded(channel) => self.enqueue_side(&self.at(channel), party),
            Any::Rendezvous(channel) => self.enqueue_offer(channel, party),
        }
    }

    fn leave(&self) {
        match (&*self.place.borrow(), self.channel) {
            (Place::Side(node), Any::Bounded(channel)) => self.leave_from(&self.at(channel), node),
            (Place::Side(node), Any::Unbounded(channel)) => {
                self.leave_from(&self.at(channel), node);
            }
            (Place::Offer(node), Any::Rendezvous(channel)) => {
                self.leave_from(&AtMeeting(channel), node)
            }
            _ => {}
        }
        *self.place.borrow_mut() = Place::Nowhere;
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

    fn give_way(&self) -> bool {
        match self.channel {
            Any::Bounded(channel) => self.at(channel).give_way(0),
            Any::Unbounded(channel) => self.at(channel).give_way(0),
            Any::Rendezvous(_) => false,
        }
    }

    fn order(&self) -> usize {
        std::ptr::from_ref(self.channel).addr()
    }
}

/// Has a case be the one that is inside another.
macro_rules! case_within {
    ($outer:ident) => {
        impl<T> Case for $outer<'_, T> {
            fn attempt(&self) -> bool {
                self.0.attempt()
            }

            unsafe fn enqueue(&self, waiter: WaiterId, claim: &Claim, outcome: u16) -> bool {
                // SAFETY: passed on to the caller.
                unsafe { self.0.enqueue(waiter, claim, outcome) }
            }

            fn leave(&self) {
                self.0.leave();
            }

            fn note_claim(&self) -> bool {
                self.0.note_claim()
            }

            fn give_way(&self) -> bool {
                self.0.give_way()
            }

            fn order(&self) -> usize {
                self.0.order()
            }
        }
    };
}
case_within!(Recv);
case_within!(SendCase);

/// A receive in a select.
#[doc(hidden)]
pub struct Recv<'c, T>(Operation<'c, T>);

impl<T> Receiver<T> {
    /// A receive, for `select!`.
    #[doc(hidden)]
    pub fn select_recv(&self) -> Recv<'_, T> {
        Recv(Operation::new(&self.channel.any, Side::Receive, None))
    }
}

impl<T> Recv<'_, T> {
    /// What was received, if this is the case that was done.
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
    /// A send, for `select!`.
    #[doc(hidden)]
    pub fn select_send(&self, message: T) -> SendCase<'_, T> {
        SendCase(Operation::new(&self.channel.any, Side::Send, Some(message)))
    }
}

impl<T> SendCase<'_, T> {
    /// How it went, if this is the case that was done.
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
    /// A receive, for `select!`.
    #[doc(hidden)]
    pub fn select_recv(&self) -> RecvOneshot<'_, T> {
        RecvOneshot { receiver: self, node: RefCell::new(None), result: Cell::new(None) }
    }
}

impl<T> RecvOneshot<'_, T> {
    /// What was received, if this is the case that was done.
    pub fn result(&self) -> Option<Result<T, RecvError>> {
        self.result.take()
    }
}

impl<T> Case for RecvOneshot<'_, T> {
    fn attempt(&self) -> bool {
        let result = match self.receiver.try_recv() {
            Ok(message) => Some(Ok(message)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(RecvError)),
        };
        let done = result.is_some();
        self.result.set(result);
        done
    }

    unsafe fn enqueue(&self, waiter: WaiterId, claim: &Claim, outcome: u16) -> bool {
        let mut place = self.node.borrow_mut();
        // SAFETY: the claim stays until `leave`: this function's contract.
        let node = place.insert(Node::new(unsafe { Party::one_of(waiter, claim, outcome) }));
        // SAFETY: a new node, which stays in place until `leave`: this function's contract.
        unsafe { self.receiver.channel.enqueue(&ThisThread, NonNull::from(&*node)) }
    }

    fn leave(&self) {
        if let Some(node) = &*self.node.borrow() {
            // SAFETY: alive, and in that queue if it is in one.
            let _ = unsafe { self.receiver.channel.leave(&ThisThread, NonNull::from(node)) };
        }
        self.node.take();
    }

    fn note_claim(&self) -> bool {
        false
    }

    fn give_way(&self) -> bool {
        false
    }

    fn order(&self) -> usize {
        std::ptr::from_ref(&*self.receiver.channel).addr()
    }
}
