//! Two objects and a timeout that end a wait: by claims alone, and by tickets.

use std::ptr;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::atomic::AtomicPtr;
use crate::modelled::{Sleep, spawn};

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
        if let Some(ticket) = self.withdraw(object)
            // SAFETY: taken from the object, by this thread alone.
            && let Some(()) = unsafe { Ticket::redeem(ticket) }
        {
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
