//! A sleeper against threads that change the object of its wait.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::modelled::{Turn, bounded, spawn};

const SLEEPER: usize = 1;

struct Shared {
    bells: [Doorbell; 2],
    listeners: Listeners,
    object: AtomicU32,
    /// Number of futex wakes that were owed.
    wakes: AtomicU32,
}

impl Shared {
    fn new() -> Arc<Self> {
        let bells = [Doorbell::new(), Doorbell::new()];
        let [object, wakes] = [AtomicU32::new(0), AtomicU32::new(0)];
        Arc::new(Self { bells, listeners: Listeners::new(), object, wakes })
    }

    fn object(&self) -> u32 {
        self.object.load(Ordering::Acquire)
    }

    /// Waits until the object is at least `least`. Returns true if the waiter would have slept for
    /// ever.
    fn oversleeps(&self, least: u32) -> bool {
        self.listeners.listen(SLEEPER);
        let bell = &self.bells[SLEEPER];
        bell.park();
        if self.object() >= least {
            bell.unpark();
            return false;
        }
        // Asleep while the word holds the mark. Loom cannot wait for a futex, so the end is looked
        // at when all other threads are done.
        true
    }

    fn change(&self) {
        self.object.fetch_add(1, Ordering::Release);
        let _ = self.listeners.ring(&self.bells, None, |bell| self.wake(bell));
    }

    fn change_by_store(&self) {
        self.object.store(1, Ordering::Release);
        let _ = self.listeners.ring_behind_store(&self.bells, None, |bell| self.wake(bell));
    }

    fn wake(&self, bell: usize) {
        assert_eq!(bell, SLEEPER);
        self.wakes.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_sleeper_is_rung_for() {
    for change in [Shared::change, Shared::change_by_store] {
        loom::model(move || {
            let shared = Shared::new();
            let changes = spawn(&shared, change);
            let sleeps = shared.oversleeps(1);
            changes.join().unwrap();
            if sleeps {
                assert!(!shared.bells[SLEEPER].is_parked(), "the owner sleeps on");
                assert_eq!(shared.wakes.load(Ordering::Relaxed), 1);
            }
        });
    }
}

#[test]
fn one_of_two_ringers_wakes() {
    bounded(2, || {
        let shared = Shared::new();
        let others = [(); 2].map(|()| spawn(&shared, Shared::change));
        let sleeps = shared.oversleeps(1);
        others.into_iter().for_each(|other| other.join().unwrap());
        let wakes = shared.wakes.load(Ordering::Relaxed);
        assert!(if sleeps { wakes == 1 } else { wakes <= 1 });
        assert!(!sleeps || !shared.bells[SLEEPER].is_parked());
    });
}

#[test]
fn a_sleeper_that_sleeps_again_is_rung_for_again() {
    loom::model(|| {
        let shared = Shared::new();
        let changes = spawn(&shared, |shared| (0..2).for_each(|_| shared.change()));
        let slept = shared.oversleeps(1);
        if !slept || !shared.bells[SLEEPER].is_parked() {
            let sleeps = shared.oversleeps(2);
            changes.join().unwrap();
            assert!(!sleeps || !shared.bells[SLEEPER].is_parked());
        } else {
            changes.join().unwrap();
            assert!(!shared.bells[SLEEPER].is_parked());
        }
    });
}

/// A doorbell, and data that a ringer writes before its ring.
struct Rung {
    bell: Doorbell,
    data: UnsafeCell<u32>,
    turn: Turn,
}

// SAFETY: the model checks that the data is read behind the ring alone.
unsafe impl Sync for Rung {}
// SAFETY: as for Sync.
unsafe impl Send for Rung {}

#[test]
fn an_owner_that_was_rung_for_sees_the_writes_of_the_ringer() {
    loom::model(|| {
        let (bell, data) = (Doorbell::new(), UnsafeCell::new(0));
        let rung = Arc::new(Rung { bell, data, turn: Turn::new() });
        rung.bell.park();
        let ringer = spawn(&rung, |rung| {
            // SAFETY: no thread reads before the ring; the model checks that.
            rung.data.with_mut(|data| unsafe { *data = 1 });
            rung.turn.take();
            rung.bell.ring(None)
        });
        rung.turn.take();
        if !rung.bell.is_parked() {
            // SAFETY: written before the ring; the model checks that.
            assert_eq!(rung.data.with(|data| unsafe { *data }), 1);
        }
        assert_eq!(ringer.join().unwrap(), RingOutcome::Asleep);
    });
}

#[test]
fn one_sits() {
    loom::model(|| {
        let seat = Arc::new(SpinSeat::new());
        let other = spawn(&seat, |seat| seat.take(7));
        seat.take(3);
        other.join().unwrap();
        assert!(seat.is_of(7) ^ seat.is_of(3));
    });
}
