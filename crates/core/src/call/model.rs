//! A client, servers, deaths.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::modelled::{bounded, dies_at_each_step, spawn};

/// A client that has died.
const DEAD: u32 = 1;
/// The server of a seat is there, or has gone; no server has come yet.
const ABSENT: u32 = 0;
const THERE: u32 = 1;

struct Shared {
    slot: CallSlot,
    mark: CallMark,
    /// The owner of the slot.
    claim: AtomicU32,
    payload: UnsafeCell<u32>,
    /// The servers that are there.
    seats: [AtomicU32; 2],
}

// SAFETY: the models check that only the side that may use the slot touches the payload.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        let (claim, payload) = (AtomicU32::new(DEAD), UnsafeCell::new(0));
        let (slot, mark) = (CallSlot::new(), CallMark::new());
        let seats = [ABSENT, THERE].map(AtomicU32::new);
        Arc::new(Self { slot, mark, claim, payload, seats })
    }

    /// Takes the slot over from a dead client. Returns true on success.
    fn inherit(&self, me: u32) -> bool {
        let seen = self.slot.seen();
        let claim = self.claim.load(Ordering::Relaxed);
        let (came, failed) = (Ordering::Acquire, Ordering::Relaxed);
        let inherits = claim == DEAD
            && self.slot.client_has_died(seen, &self.mark)
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

    fn take(&self) -> Taken {
        self.take_as(1)
    }

    fn take_as(&self, server: u32) -> Taken {
        self.slot.take(&self.mark, server)
    }

    fn takes(&self) -> Ticket {
        let Taken::Call(ticket) = self.take() else { panic!("there is one") };
        ticket
    }

    /// Carries out the request: replies with the double.
    fn carry_out(&self, ticket: Ticket) -> Delivered {
        self.write(2 * self.read());
        self.slot.reply(ticket, 4, 0)
    }

    /// Serves once. Returns true if there was a call to carry out.
    fn serve(&self) -> bool {
        self.serve_as(1)
    }

    fn serve_as(&self, server: u32) -> bool {
        let Taken::Call(ticket) = self.take_as(server) else { return false };
        let _ = self.carry_out(ticket);
        true
    }

    /// Serves once. Returns true if the slot is known to be free for other clients.
    fn frees(&self) -> bool {
        match self.take() {
            Taken::Call(ticket) => self.carry_out(ticket) == Delivered::CallerLeft,
            taken => taken == Taken::Left,
        }
    }

    fn leave(&self, ticket: Ticket) -> Left {
        self.slot.leave(ticket, &self.mark)
    }

    /// Makes the first step of a new server, once its predecessor is dead.
    fn take_office(&self) {
        if let Some((ticket, _)) = self.slot.in_hand(&self.mark) {
            self.slot.server_has_died(ticket);
        }
    }

    /// Ends the call if the server that has it in hand is gone, as its client does.
    fn look_for_server(&self, ticket: Ticket) {
        // Acquire: pairs with the Release of the server that comes or goes.
        let is_gone = |server: u32| self.seats[server as usize].load(Ordering::Acquire) != THERE;
        // It has looked for a server before its call.
        let _ = is_gone(0);
        let server = self.mark.server_of(ticket);
        if server.is_some_and(is_gone) {
            self.slot.server_has_died(ticket);
        }
    }

    fn write(&self, message: u32) {
        // SAFETY: the caller may use the slot.
        self.payload.with_mut(|payload| unsafe { *payload = message });
    }

    fn read(&self) -> u32 {
        // SAFETY: the caller may use the slot.
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
fn a_client_that_leaves_gets_the_slot_back_from_the_server() {
    loom::model(|| {
        let shared = Shared::new();
        let ticket = shared.call(1);
        let server = spawn(&shared, Shared::serve);
        let left = shared.leave(ticket);
        if left != Left::Abandoned {
            // The slot is the client's at once.
            let again = shared.call(5);
            assert_ne!(again, ticket);
            let served = server.join().unwrap();
            assert!(served || left == Left::Withdrawn);
            assert!(shared.serve() || left == Left::Withdrawn && served);
            assert_eq!((shared.slot.progress(again), shared.read()), (Progress::Replied, 10));
        } else {
            // It has carried the call out, or has seen in time that it was left.
            let _ = server.join().unwrap();
            assert!(shared.slot.is_clients());
            let _ = shared.call(7);
        }
    });
}

/// The slow server has looked at an earlier call.
#[test]
fn a_slow_server_leaves_a_call_alone_that_another_has_in_hand() {
    bounded(3, || {
        let shared = Shared::new();
        let first = shared.call(1);
        let slow = spawn(&shared, Shared::take);
        let taken = shared.take();
        if taken == Taken::Call(first) {
            let _ = shared.carry_out(first);
            let second = shared.call(2);
            let taken = shared.take();
            let other = slow.join().unwrap();
            let carried_out = if taken == Taken::Nothing { other } else { taken };
            assert_eq!(carried_out, Taken::Call(second));
            assert!(taken == Taken::Nothing || other == Taken::Nothing, "twice");
            assert_eq!(shared.slot.in_hand(&shared.mark), Some((second, 1)));
            assert_eq!(shared.take(), Taken::Nothing);
            assert_eq!(shared.carry_out(second), Delivered::ToClient);
        } else {
            assert_eq!((taken, slow.join().unwrap()), (Taken::Nothing, Taken::Call(first)));
        }
    });
}

/// The client waits, or leaves meanwhile.
#[test]
fn a_server_that_dies_at_any_step_leaves_no_call_open() {
    for leaves in [false, true] {
        dies_at_each_step(2, move |death| {
            let shared = Shared::new();
            let ticket = shared.call(21);
            let death = death.clone();
            let victim = spawn(&shared, move |shared| death.of(|| shared.serve()));
            let left = leaves.then(|| shared.leave(ticket));
            let lived = victim.join().unwrap();
            shared.take_office();
            match left {
                // Perhaps the next server takes it.
                None => {
                    let lost = shared.slot.progress(ticket) == Progress::Lost;
                    assert!(!lost || lived.is_none());
                    let served = shared.serve();
                    assert!(lost || served != (lived == Some(true)) || lived.is_none());
                    let replied = shared.slot.progress(ticket) == Progress::Replied;
                    assert!(lost != replied);
                    assert!(lost || shared.read() == 42);
                }
                Some(left) => {
                    assert!(shared.slot.is_clients(), "{left:?}");
                    assert!(!shared.serve(), "a call that was left");
                }
            }
            let next = shared.call(5);
            assert!(shared.serve());
            assert_eq!((shared.slot.progress(next), shared.read()), (Progress::Replied, 10));
        });
    }
}

/// The client has called, and leaves.
#[test]
fn of_a_client_that_dies_at_any_step_another_has_the_slot() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        let ticket = shared.call(1);
        let death = death.clone();
        let victim = spawn(&shared, move |shared| death.of(|| shared.leave(ticket)));
        let server = spawn(&shared, Shared::frees);
        let _ = victim.join().unwrap();
        let has_it = shared.inherit(2);
        let is_notified = server.join().unwrap();
        assert!(has_it || is_notified, "no notification would come");
        assert!(has_it || shared.inherit(2));
        let next = shared.call(5);
        assert!(shared.serve());
        assert_eq!((shared.slot.progress(next), shared.read()), (Progress::Replied, 10));
    });
}

#[test]
fn a_client_learns_of_the_death_of_a_server_that_has_taken_its_call() {
    loom::model(|| {
        let shared = Shared::new();
        let ticket = shared.call(1);
        // The server dies behind the take.
        let server = spawn(&shared, |shared| _ = shared.take());
        server.join().unwrap();
        let sweeper = spawn(&shared, Shared::take_office);
        let left = shared.leave(ticket);
        sweeper.join().unwrap();
        match left {
            Left::Over => assert_eq!(shared.slot.progress(ticket), Progress::Lost),
            Left::Withdrawn => panic!("it was taken"),
            Left::Abandoned => shared.take_office(),
        }
        assert!(shared.slot.is_clients());
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
fn the_next_owner_of_a_dead_clients_slot_is_not_disturbed_by_a_late_server() {
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

/// Other clients wait for the slot of a client that has died while a server had its call in hand.
#[test]
fn of_a_dead_clients_slot_one_hears_from_the_server_or_has_it() {
    loom::model(|| {
        let shared = Shared::new();
        let _dead = shared.call(1);
        let ticket = shared.takes();
        let server = spawn(&shared, move |shared| shared.slot.reply(ticket, 4, 0));
        let has_it = shared.inherit(2);
        let delivered = server.join().unwrap();
        assert!(has_it || delivered == Delivered::CallerLeft, "no notification would come");
        assert!(has_it || shared.inherit(2));
    });
}

/// Two servers serve at once; one of them comes when the client has called.
#[test]
fn a_call_in_the_hand_of_a_server_that_has_just_come_is_left_to_it() {
    loom::model(|| {
        let shared = Shared::new();
        let ticket = shared.call(21);
        let comes = spawn(&shared, |shared| {
            // Release: pairs with the Acquire in `look_for_server`.
            shared.seats[0].store(THERE, Ordering::Release);
            shared.serve_as(0)
        });
        shared.look_for_server(ticket);
        match shared.slot.progress(ticket) {
            Progress::Replied => assert_eq!(shared.read(), 42),
            // The client may write, as any server that had the call would be gone.
            Progress::Lost => shared.write(7),
            _ => assert!(shared.serve_as(1) != comes.join().unwrap()),
        }
        assert_ne!(shared.slot.progress(ticket), Progress::Lost, "its server is there");
    });
}

/// The client looks for the server that has its call, and the other server serves on.
#[test]
fn of_two_servers_one_that_dies_at_any_step_takes_its_own_call_along() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        shared.seats[0].store(THERE, Ordering::Relaxed);
        let ticket = shared.call(21);
        let death = death.clone();
        let victim = spawn(&shared, move |shared| death.of(|| shared.serve_as(0)));
        let served = shared.serve_as(1);
        let lived = victim.join().unwrap();
        if lived.is_none() {
            shared.seats[0].store(ABSENT, Ordering::Release);
        }
        shared.look_for_server(ticket);
        let progress = shared.slot.progress(ticket);
        match progress {
            Progress::Lost => assert!(lived.is_none() && !served),
            Progress::Replied => assert_eq!(shared.read(), 42),
            other => panic!("{other:?}"),
        }
        let next = shared.call(5);
        assert!(shared.serve_as(1));
        assert_eq!((shared.slot.progress(next), shared.read()), (Progress::Replied, 10));
    });
}
