//! Two objects and a timeout that end a wait: by claims alone, and by tickets.

use std::ptr;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::atomic::AtomicPtr;
use crate::event::RawEvent;
use crate::list::Unlinked;
use crate::lock::testing::Tester;
use crate::modelled::{Sleep, Turn, bounded, spawn};
use crate::semaphore::{RawSemaphore, Request};
use crate::wait::Node;

#[test]
fn one_of_two_objects_and_a_timeout_ends_the_wait() {
    loom::model(|| {
        let notes = [UnsafeCell::new(0), UnsafeCell::new(0)];
        let shared = Arc::new((Claim::new(), notes));
        let (claim, notes) = &*shared;
        let objects = [0, 1].map(|object| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (claim, notes) = &*shared;
                // SAFETY: the waiter touches it only after the claim, which comes later.
                notes[usize::from(object)].with_mut(|note| unsafe { *note = 5 });
                claim.try_claim(object)
            })
        });
        let outcome = claim.close();
        if let Some(object) = outcome {
            // SAFETY: the claimant has written it before.
            assert_eq!(notes[usize::from(object)].with(|note| unsafe { *note }), 5);
        }
        let won = objects.map(|object| object.join().unwrap());
        assert_eq!(won, [outcome == Some(0), outcome == Some(1)]);
    });
}

/// Objects without a lock: each has room for the ticket of one waiter, and ends once.
struct Objects {
    waiting: [AtomicPtr<Ticket<()>>; 2],
    wake: Sleep,
}

impl Objects {
    fn end(&self, object: usize) {
        let Some(ticket) = self.withdraw(object) else { return };
        // SAFETY: taken from the object, by this thread alone.
        let redeemed = unsafe { Ticket::redeem(ticket) };
        if let Redeemed::Taken(()) | Redeemed::TooLate(Some(())) = redeemed {
            self.wake.wake();
        }
    }

    fn withdraw(&self, object: usize) -> Option<NonNull<Ticket<()>>> {
        NonNull::new(self.waiting[object].swap(ptr::null_mut(), Ordering::AcqRel))
    }
}

/// Waits for the first of two ends, or gives up at once.
fn two_ends_and_a_waiter(gives_up: bool) {
    loom::model(move || {
        let waiting = [(); 2].map(|()| AtomicPtr::new(ptr::null_mut()));
        let objects = Arc::new(Objects { waiting, wake: Sleep::new() });
        let claim = Claim::new();
        // SAFETY: the claim is declared before the tickets.
        let tickets = [0, 1].map(|object| unsafe { Ticket::new((), &claim, object) });
        for (waiting, ticket) in objects.waiting.iter().zip(&tickets) {
            waiting.store(ptr::from_ref(ticket).cast_mut(), Ordering::Release);
        }
        let ends = [0, 1].map(|object| spawn(&objects, move |objects| objects.end(object)));
        if !gives_up {
            objects.wake.wait();
        }
        let outcome = claim.close();
        assert!(gives_up || outcome.is_some());
        if gives_up && outcome.is_some() {
            objects.wake.wait();
        }
        for (object, ticket) in tickets.iter().enumerate() {
            let is_given_out = objects.withdraw(object).is_none();
            if is_given_out && outcome != Some(object as u16) && ticket.recall() {
                objects.wake.wait();
            }
        }
        tickets.iter().for_each(Ticket::reclaim);
        claim.reclaim();
        ends.into_iter().for_each(|end| end.join().unwrap());
        assert!(!objects.wake.take(), "a wake without a waiter");
    });
}

#[test]
fn a_waiter_that_gives_up_gets_its_tickets_back() {
    two_ends_and_a_waiter(true);
}

#[test]
fn a_waiter_for_two_ends_is_woken_once_and_gets_its_tickets_back() {
    two_ends_and_a_waiter(false);
}

/// A waiter, as an event knows it.
#[derive(Clone, Copy)]
struct Id(NonNull<Ticket<()>>);

// SAFETY: a ticket is redeemed by any thread.
unsafe impl Send for Id {}

impl Id {
    /// Redeems the ticket. Returns false if the object has to serve another waiter.
    ///
    /// # Safety
    ///
    /// As for [`Ticket::redeem`].
    unsafe fn redeem(self, wake: &Sleep) -> bool {
        // SAFETY: passed on to the caller.
        let redeemed = unsafe { Ticket::redeem(self.0) };
        if let Redeemed::Taken(()) | Redeemed::TooLate(Some(())) = redeemed {
            wake.wake();
        }
        matches!(redeemed, Redeemed::Taken(()))
    }
}

/// Events, of which each set lets one waiter go.
struct Events {
    events: [RawEvent<Id>; 2],
    wake: Sleep,
    turn: Turn,
}

impl Events {
    fn set(&self, event: usize, actor: u32) {
        self.turn.take();
        while !self.events[event].set_fast() {
            let Some(id) = self.events[event].set(&Tester(actor)).next() else { return };
            // SAFETY: the event has given the ticket out, to this thread.
            if unsafe { id.redeem(&self.wake) } {
                return;
            }
        }
    }
}

#[test]
fn a_waiter_for_the_first_of_two_events_takes_one_set() {
    bounded(2, || {
        let (events, wake, turn) =
            ([RawEvent::auto(), RawEvent::auto()], Sleep::new(), Turn::new());
        let shared = Arc::new(Events { events, wake, turn });
        let claim = Claim::new();
        // SAFETY: the claim is declared before the tickets.
        let tickets = [0, 1].map(|event| unsafe { Ticket::new((), &claim, event) });
        let nodes = tickets.each_ref().map(|ticket| Node::new(Id(NonNull::from(ticket))));
        for (event, node) in shared.events.iter().zip(&nodes) {
            // SAFETY: the node is in no queue, and stays until it has left or is claimed.
            assert!(!unsafe { event.pass(&Tester(1), NonNull::from(node)) });
        }
        let setters = [0, 1].map(|event| {
            spawn(&shared, move |shared: &Events| shared.set(event, event as u32 + 2))
        });
        let outcome = claim.close();
        if outcome.is_some() {
            shared.wake.wait();
        }
        for (event, ticket) in tickets.iter().enumerate() {
            // SAFETY: alive, and queued there.
            let left =
                unsafe { shared.events[event].leave(&Tester(1), NonNull::from(&nodes[event])) };
            if left == Unlinked::AlreadyGone && outcome != Some(event as u16) && ticket.recall() {
                shared.wake.wait();
            }
        }
        tickets.iter().for_each(Ticket::reclaim);
        claim.reclaim();
        setters.into_iter().for_each(|setter| setter.join().unwrap());
        for (event, set) in shared.events.iter().enumerate() {
            assert_eq!(set.is_set(), outcome != Some(event as u16));
        }
    });
}

/// A semaphore, with a select and another waiter in line.
struct InLine {
    semaphore: RawSemaphore<Option<Id>>,
    /// Wakes of the select, and of the other waiter, which has no ticket.
    wakes: [Sleep; 2],
}

impl InLine {
    fn release(&self, actor: u32) {
        if self.semaphore.release_fast(1) == Ok(true) {
            return;
        }
        self.semaphore.release(&Tester(actor), 1).unwrap();
        while let Some(request) = self.semaphore.serve(&Tester(actor)) {
            match request.waiter {
                None => self.wakes[1].wake(),
                Some(id) => {
                    // SAFETY: the semaphore has given the ticket out, to this thread.
                    if !unsafe { id.redeem(&self.wakes[0]) } {
                        self.semaphore.release(&Tester(actor), request.permits).unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn a_permit_for_a_select_that_has_ended_goes_to_the_next_in_line() {
    bounded(2, || {
        let semaphore = RawSemaphore::new(0);
        let shared = Arc::new(InLine { semaphore, wakes: [Sleep::new(), Sleep::new()] });
        let claim = Claim::new();
        // SAFETY: the claim is declared before the ticket.
        let ticket = unsafe { Ticket::new((), &claim, 0) };
        let waiters = [Some(Id(NonNull::from(&ticket))), None];
        let nodes = waiters.map(|waiter| Node::new(Request { waiter, permits: 1 }));
        for node in &nodes {
            // SAFETY: the node is in no queue, and stays until it has left or is claimed.
            assert!(!unsafe { shared.semaphore.acquire(&Tester(1), NonNull::from(node)) });
        }
        let releases = spawn(&shared, |shared: &InLine| shared.release(2));
        let outcome = claim.close();
        if outcome.is_some() {
            shared.wakes[0].wait();
        }
        // SAFETY: alive, and queued there.
        let left = unsafe { shared.semaphore.leave(&Tester(1), NonNull::from(&nodes[0])) };
        if left == Unlinked::AlreadyGone && outcome.is_none() && ticket.recall() {
            shared.wakes[0].wait();
        }
        ticket.reclaim();
        claim.reclaim();
        if outcome.is_some() {
            shared.release(1);
        }
        // The select does not serve: the permit comes by the thread that has given it back.
        shared.wakes[1].wait();
        releases.join().unwrap();
        assert!(!shared.wakes[0].take(), "a wake without a waiter");
        assert_eq!(shared.semaphore.available(), 0);
    });
}
