//! A case that waits by a ticket: its object takes it for any other waiter.

use std::cell::{Cell, RefCell};

use daiko_core::claim::{Claim, Ticket};
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;

use super::case::{Borrowed, Case, Look};
use daiko_rt::Deadline;
use daiko_rt::call::{InCall, Item};
use daiko_rt::deadlock::WaitKind;
use daiko_rt::wait::Waiter;

/// An operation of an object that claims the nodes of its waiters by a protocol of its own.
pub trait Selectable {
    /// The node of a waiter.
    type Node;
    /// The result of the operation.
    type Output;

    /// Performs the operation if that is possible at once.
    fn attempt(&self, call: InCall<'_>, look: Look) -> Option<Self::Output>;

    /// See [`Case::begin`].
    fn begin(&self, _waiter: &Waiter) -> (Deadline, WaitKind) {
        (Deadline::NEVER, WaitKind::Select)
    }

    /// Creates the node of the waiter with `ticket`.
    ///
    /// # Safety
    ///
    /// As for [`ticket_id`](daiko_rt::wait::ticket_id).
    unsafe fn node(&self, ticket: &Ticket<WaiterId>) -> Self::Node;

    /// Queues `node`; returns false if it is in no queue, as the operation is possible now.
    ///
    /// # Safety
    ///
    /// The node is new, and stays in place until [`leave`](Self::leave).
    unsafe fn enqueue(&self, call: InCall<'_>, node: &Self::Node) -> bool;

    /// Returns true if the operation is possible although `node` was queued meanwhile.
    fn is_possible(&self, _node: &Self::Node) -> bool {
        false
    }

    /// Takes `node` out of the queue, unless a waker has its ticket.
    ///
    /// # Safety
    ///
    /// The node was queued here.
    unsafe fn leave(&self, call: InCall<'_>, node: &Self::Node) -> Unlinked;

    /// Returns the result of the operation, if the claim of `node` has completed it.
    fn claimed(&self, _node: &Self::Node) -> Option<Self::Output> {
        None
    }

    /// Passes on a wake that the node was claimed with, and that the select does not use.
    fn give_way(&self, _call: InCall<'_>) {}

    /// Passes on a wake that came too late, unless the waker does that.
    fn pass_on(&self, _call: InCall<'_>) {}

    /// Returns the item that the caller holds once the operation is done, for its robust list.
    fn held(&self) -> Option<Item> {
        None
    }

    /// See [`Case::order`].
    fn order(&self) -> usize;
}

/// An operation in a select, with its ticket while it waits.
#[doc(hidden)]
pub struct Selected<S: Selectable> {
    operation: S,
    ticket: RefCell<Option<Ticket<WaiterId>>>,
    node: RefCell<Option<S::Node>>,
    result: Cell<Option<S::Output>>,
}

impl<S: Selectable> Selected<S> {
    pub(crate) fn new(operation: S) -> Self {
        let (ticket, node) = (RefCell::new(None), RefCell::new(None));
        Selected { operation, ticket, node, result: Cell::new(None) }
    }

    pub(crate) fn operation(&self) -> &S {
        &self.operation
    }

    /// Borrows the case for a select.
    pub fn borrow_case(&mut self) -> Borrowed<'_> {
        Borrowed::of(self)
    }

    /// Returns the result, if this is the case that was done.
    pub fn result(&self) -> Option<S::Output> {
        self.result.take()
    }

    fn set_result(&self, result: Option<S::Output>) -> bool {
        let is_done = result.is_some();
        self.result.set(result);
        is_done
    }
}

impl<S: Selectable> Case for Selected<S> {
    fn attempt(&self, call: InCall<'_>, look: Look) -> bool {
        self.set_result(self.operation.attempt(call, look))
    }

    fn begin(&self, waiter: &Waiter) -> (Deadline, WaitKind) {
        self.operation.begin(waiter)
    }

    unsafe fn enqueue(
        &self,
        call: InCall<'_>,
        waiter: WaiterId,
        claim: &Claim,
        outcome: u16,
    ) -> bool {
        let mut ticket = self.ticket.borrow_mut();
        // SAFETY: the claim stays until `leave`: this function's contract.
        let ticket = ticket.insert(unsafe { Ticket::new(waiter, claim, outcome) });
        let mut place = self.node.borrow_mut();
        // SAFETY: the ticket stays in place until `leave`, which waits for its claimant.
        let node = place.insert(unsafe { self.operation.node(ticket) });
        // SAFETY: a new node, which stays in place until `leave`: this function's contract.
        let queued = unsafe { self.operation.enqueue(call, node) };
        let waits = queued && !self.operation.is_possible(node);
        if !queued {
            *place = None;
        }
        waits
    }

    fn leave(&self, call: InCall<'_>, waiter: &Waiter, is_claimed: bool) {
        let mut place = self.node.borrow_mut();
        let Some(node) = &*place else { return };
        // SAFETY: queued here.
        match unsafe { self.operation.leave(call, node) } {
            Unlinked::Mine => {}
            Unlinked::AlreadyGone if is_claimed => self.result.set(self.operation.claimed(node)),
            Unlinked::AlreadyGone => {
                let ticket = self.ticket.borrow();
                waiter.recall(call, ticket.as_ref().expect("queued with a ticket"));
                self.operation.pass_on(call);
            }
        }
        *place = None;
    }

    fn note_claim(&self) -> bool {
        self.set_result(self.result.take())
    }

    fn give_way(&self, call: InCall<'_>) -> bool {
        self.operation.give_way(call);
        true
    }

    fn held(&self) -> Option<Item> {
        let result = self.result.take();
        let is_done = result.is_some();
        self.result.set(result);
        if is_done { self.operation.held() } else { None }
    }

    fn order(&self) -> usize {
        self.operation.order()
    }
}
