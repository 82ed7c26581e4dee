//! Joining a fiber in a `select!`.

use std::cell::RefCell;

use daiko_core::claim::Ticket;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;

use super::case::Look;
use super::queued::{Selectable, Selected};
use daiko_rt::JoinError;
use daiko_rt::call::InCall;
use daiko_rt::fiber::Joinable;
use daiko_rt::wait::ticket_id;

/// A join in a select.
#[doc(hidden)]
pub struct Join<'h, H>(RefCell<&'h mut H>);

/// A handle that a select can join.
#[doc(hidden)]
pub trait SelectJoin: Joinable + Sized {
    /// Creates a join for `select!`.
    fn select_join(&mut self) -> Selected<Join<'_, Self>> {
        Selected::new(Join(RefCell::new(self)))
    }
}

impl<H: Joinable> SelectJoin for H {}

impl<H: Joinable> Selectable for Join<'_, H> {
    type Node = WaiterId;
    type Output = Result<H::Output, JoinError>;

    fn attempt(&self, _: InCall<'_>, _: Look) -> Option<Self::Output> {
        self.0.borrow_mut().take_end()
    }

    unsafe fn node(&self, ticket: &Ticket<WaiterId>) -> WaiterId {
        // SAFETY: passed on to the caller.
        unsafe { ticket_id(ticket) }
    }

    unsafe fn enqueue(&self, _: InCall<'_>, node: &WaiterId) -> bool {
        // SAFETY: the handle is borrowed until the select has left.
        unsafe { self.0.borrow().wait(*node) }
    }

    unsafe fn leave(&self, _: InCall<'_>, node: &WaiterId) -> Unlinked {
        self.0.borrow().leave(*node)
    }

    fn order(&self) -> usize {
        std::ptr::from_ref(&**self.0.borrow()).addr()
    }
}
