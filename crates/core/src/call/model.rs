//! A client, servers, a death.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::modelled::{bounded, spawn};

struct Shared {
    slot: Slot,
    payload: UnsafeCell<u32>,
}

// SAFETY: the payload is touched by whose turn it is; that is what the models check.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { slot: Slot::new(), payload: UnsafeCell::new(0) })
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
