//! A client, servers, a death.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::modelled::{bounded, spawn};

/// A client that has died.
const DEAD: u32 = 1;

struct Shared {
    slot: Slot,
    /// Whose the slot is.
    claim: AtomicU32,
    payload: UnsafeCell<u32>,
}

// SAFETY: the payload is touched by whose turn it is; that is what the models check.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        let (claim, payload) = (AtomicU32::new(DEAD), UnsafeCell::new(0));
        Arc::new(Self { slot: Slot::new(), claim, payload })
    }

    /// Takes the slot over from a dead client.
    fn inherit(&self, me: u32) -> bool {
        let seen = self.slot.seen();
        let claim = self.claim.load(Ordering::Relaxed);
        let (came, failed) = (Ordering::Acquire, Ordering::Relaxed);
        let inherits = claim == DEAD
            && self.slot.client_has_died(seen)
            && self.claim.compare_exchange(claim, me, came, failed).is_ok();
        if inherits {
            self.slot.renew();
        }
        inherits
    }

    fn call(&self, message: u32) -> Ticket {
        assert!(self.slot.is_clients());
        self.write(message);
        self.slot.post(4, 0, None)
    }

    /// Replies with the double of what is asked; whether there was a call.
    fn serve(&self) -> bool {
        let Some(ticket) = self.slot.take() else { return false };
        self.write(2 * self.read());
        let _ = self.slot.reply(ticket, 4, 0);
        true
    }

    fn write(&self, message: u32) {
        // SAFETY: the caller's turn.
        self.payload.with_mut(|payload| unsafe { *payload = message });
    }

    fn read(&self) -> u32 {
        // SAFETY: the caller's turn.
        self.payload.with(|payload| unsafe { *payload })
    }
}

#[test]
fn one_of_two_servers_replies() {
    bounded(2, || {
        let shared = Shared::new();
        let ticket = shared.call(21);
        let servers = [(); 2].map(|()| spawn(&shared, Shared::serve));
        let early = shared.slot.progress(ticket);
        assert!(early != Progress::Replied || shared.read() == 42);
        let served = servers.map(|server| server.join().unwrap());
        assert!(served[0] ^ served[1], "{served:?}");
        assert_eq!((shared.slot.progress(ticket), shared.read()), (Progress::Replied, 42));
    });
}

#[test]
fn who_leaves_has_the_slot_again_once_no_server_has() {
    loom::model(|| {
        let shared = Shared::new();
        let ticket = shared.call(1);
        let server = spawn(&shared, Shared::serve);
        let left = shared.slot.leave(ticket);
        if left != Left::Abandoned {
            // The slot is the client's at once.
            let again = shared.call(5);
            assert_ne!(again, ticket);
            let served = server.join().unwrap();
            assert!(served || left == Left::Withdrawn);
            assert!(shared.serve() || left == Left::Withdrawn && served);
            assert_eq!((shared.slot.progress(again), shared.read()), (Progress::Replied, 10));
        } else {
            assert!(server.join().unwrap() && shared.slot.is_clients());
            let _ = shared.call(7);
        }
    });
}

#[test]
fn a_client_learns_of_the_death_of_a_server_that_has_taken_its_call() {
    loom::model(|| {
        let shared = Shared::new();
        let ticket = shared.call(1);
        // It dies behind the take.
        let server = spawn(&shared, |shared| _ = shared.slot.take());
        server.join().unwrap();
        let sweeper = spawn(&shared, move |shared| shared.slot.server_has_died(ticket));
        let left = shared.slot.leave(ticket);
        sweeper.join().unwrap();
        match left {
            Left::Over => assert_eq!(shared.slot.progress(ticket), Progress::Lost),
            Left::Abandoned => assert!(shared.slot.is_clients()),
            Left::Withdrawn => panic!("it was taken"),
        }
        let _ = shared.call(2);
    });
}

#[test]
fn a_sweep_that_is_late_does_not_end_the_next_call() {
    loom::model(|| {
        let shared = Shared::new();
        let ticket = shared.call(1);
        let sweepers =
            [(); 2].map(|()| spawn(&shared, move |shared| shared.slot.server_has_died(ticket)));
        if shared.slot.progress(ticket) == Progress::Lost {
            let again = shared.call(2);
            assert!(shared.serve());
            sweepers.into_iter().for_each(|sweeper| sweeper.join().unwrap());
            assert_eq!((shared.slot.progress(again), shared.read()), (Progress::Replied, 4));
        } else {
            sweepers.into_iter().for_each(|sweeper| sweeper.join().unwrap());
            assert_eq!(shared.slot.progress(ticket), Progress::Lost);
        }
    });
}

#[test]
fn who_takes_a_dead_clients_slot_over_is_not_disturbed_by_who_is_late() {
    bounded(3, || {
        let shared = Shared::new();
        let _dead = shared.call(1);
        let late = spawn(&shared, |shared| shared.inherit(3));
        if shared.inherit(2) {
            let ticket = shared.call(5);
            assert!(shared.serve());
            assert_eq!((shared.slot.progress(ticket), shared.read()), (Progress::Replied, 10));
            assert!(!late.join().unwrap());
        } else {
            late.join().unwrap();
        }
    });
}

/// Others wait for the slot of one that has died while a server had his call in hand.
#[test]
fn of_a_dead_clients_slot_one_hears_from_the_server_or_has_it() {
    loom::model(|| {
        let shared = Shared::new();
        let _dead = shared.call(1);
        let ticket = shared.slot.take().expect("it was posted");
        let server = spawn(&shared, move |shared| shared.slot.reply(ticket, 4, 0));
        let has_it = shared.inherit(2);
        let delivered = server.join().unwrap();
        assert!(has_it || delivered == Delivered::ToNobody, "nobody would tell");
        assert!(has_it || shared.inherit(2));
    });
}
