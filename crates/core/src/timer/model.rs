//! The owner of a wheel, and waiters that left for other workers.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::circle::Circular;
use crate::lock::testing::Tester;
use crate::modelled::spawn;

const OWNER: Tester = Tester(1);
const MIGRATABLE: Tester = Tester(2);

/// Two timers with due times on the upper levels, and their waiters' frames, which are gone once
/// the waits are over.
struct Shared {
    wheel: Wheel<usize>,
    timers: [Timer<usize>; 2],
    frames: [UnsafeCell<usize>; 2],
}

// SAFETY: the models check that the protocol gives each frame to one thread at a time.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            wheel: Wheel::new(),
            timers: [Timer::new(0), Timer::new(1)],
            frames: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    fn arm(&self, i: usize, tick: u64) {
        // SAFETY: in no wheel, and it outlives this one.
        unsafe { self.wheel.arm(&OWNER, NonNull::from(&self.timers[i]), tick * TICK_NS) };
    }

    fn disarm(&self, i: usize) -> Unlinked {
        // SAFETY: alive, and only ever in this wheel.
        unsafe { self.wheel.disarm(&MIGRATABLE, NonNull::from(&self.timers[i])) }
    }

    /// Fires, which writes to the frames of the waiters that are called for.
    fn fire(&self, tick: u64) -> usize {
        self.wheel.fire(&OWNER, tick * TICK_NS, |waiter| {
            // SAFETY: the waiter stays until the call is over; the models check that.
            self.frames[waiter].with_mut(|calls| unsafe { *calls += 1 });
        })
    }

    /// Ends the frame of a waiter and returns the number of calls for it.
    fn leave(&self, i: usize) -> usize {
        self.timers[i].links().reclaim();
        // SAFETY: no other thread touches the frame any more; the models check that.
        self.frames[i].with_mut(|calls| unsafe { *calls })
    }
}

#[test]
fn of_fire_and_disarm_one_ends_the_wait() {
    loom::model(|| {
        let shared = Shared::new();
        shared.arm(0, 6);
        shared.arm(1, 7);
        let migratable = spawn(&shared, |shared| {
            let disarmed = shared.disarm(0);
            (disarmed, shared.leave(0))
        });
        let fired = shared.fire(7);
        let (disarmed, calls) = migratable.join().unwrap();
        assert_eq!(calls, usize::from(disarmed == Unlinked::AlreadyGone));
        assert_eq!((fired, shared.leave(1)), (calls + 1, 1), "the other timer fires in any case");
        assert_eq!(shared.wheel.next_due(), u64::MAX);
    });
}

#[test]
fn a_waiter_with_a_fired_timer_owns_its_frame_after_the_call() {
    loom::model(|| {
        let shared = Shared::new();
        shared.arm(0, 1);
        let waiter = spawn(&shared, |shared| {
            if shared.timers[0].state() == TimerState::Fired {
                assert_eq!(shared.leave(0), 1);
            }
        });
        assert_eq!(shared.fire(1), 1);
        waiter.join().unwrap();
    });
}

#[test]
fn timers_of_the_owner_fire_in_time_though_others_disarm() {
    loom::model(|| {
        let shared = Shared::new();
        shared.arm(0, 3);
        let migratable = spawn(&shared, |shared| shared.disarm(0));
        shared.arm(1, 5);
        assert!(shared.wheel.next_due() <= 5 * TICK_NS, "the owner oversleeps");
        assert_eq!(migratable.join().unwrap(), Unlinked::Mine);
        assert_eq!(shared.wheel.next_due(), 5 * TICK_NS);
    });
}
