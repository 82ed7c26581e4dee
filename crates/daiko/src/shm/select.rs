//! Objects of segments in a `select!`.

use std::cell::RefCell;

use daiko_core::claim::Ticket;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_ipc::bytemuck::Pod;
use daiko_ipc::{Event, Missing, MpmcReceiver, Place, Receiver, RecvError};

use crate::caller;
use crate::select::{Look, Selectable, Selected};
use daiko_rt::Deadline;
use daiko_rt::call::InCall;
use daiko_rt::deadlock::WaitKind;
use daiko_rt::wait::Waiter;

/// An operation of an object, as attempts and the changes that they find missing.
struct Operation<A> {
    attempt: RefCell<A>,
    /// The change that the last attempt has found missing.
    missing: RefCell<Option<Box<dyn Missing>>>,
    order: usize,
}

fn selected<T, R>(
    object: *const T,
    attempt: impl FnMut() -> Result<R, Box<dyn Missing>>,
) -> Selected<impl Selectable<Output = R>> {
    let (attempt, missing) = (RefCell::new(attempt), RefCell::new(None));
    Selected::new(Operation { attempt, missing, order: object.addr() })
}

/// An event of a segment that a select can wait for.
#[doc(hidden)]
pub trait SelectWait {
    /// Creates a wait for `select!`.
    fn select_wait(&self) -> Selected<impl Selectable<Output = ()>>;
}

impl SelectWait for Event {
    fn select_wait(&self) -> Selected<impl Selectable<Output = ()>> {
        let mut seen = None;
        selected(self, move || self.attempt(&mut seen))
    }
}

/// A receiver in a segment that a select can receive from.
#[doc(hidden)]
pub trait SelectRecv {
    /// The messages.
    type Message;

    /// Creates a receive for `select!`.
    fn select_recv(
        &mut self,
    ) -> Selected<impl Selectable<Output = Result<Self::Message, RecvError>>>;
}

impl<T: Pod> SelectRecv for Receiver<T> {
    type Message = T;

    fn select_recv(&mut self) -> Selected<impl Selectable<Output = Result<T, RecvError>>> {
        selected(self, || self.attempt_once())
    }
}

impl<T: Pod> SelectRecv for MpmcReceiver<T> {
    type Message = T;

    fn select_recv(&mut self) -> Selected<impl Selectable<Output = Result<T, RecvError>>> {
        selected(self, || self.attempt_once())
    }
}

impl<R, A: FnMut() -> Result<R, Box<dyn Missing>>> Selectable for Operation<A> {
    type Node = Place;
    type Output = R;

    fn attempt(&self, _: InCall<'_>, _: Look) -> Option<R> {
        match (self.attempt.borrow_mut())() {
            Ok(result) => Some(result),
            Err(missing) => {
                *self.missing.borrow_mut() = Some(missing);
                None
            }
        }
    }

    fn begin(&self, _: &Waiter) -> (Deadline, WaitKind) {
        caller::caller("a select! of an object in a segment");
        (Deadline::NEVER, WaitKind::Watch)
    }

    unsafe fn node(&self, ticket: &Ticket<WaiterId>) -> Place {
        let missing = self.missing.take().expect("an attempt comes before each wait");
        // SAFETY: passed on to the caller.
        unsafe { Place::new(missing, ticket) }
    }

    unsafe fn enqueue(&self, call: InCall<'_>, place: &Place) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { place.enter(call) };
        true
    }

    unsafe fn leave(&self, call: InCall<'_>, place: &Place) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { place.leave(call) }
    }

    fn order(&self) -> usize {
        self.order
    }
}
