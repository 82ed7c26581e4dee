//! Objects at which fibers wait for each other: readers-writer locks, events, barriers, and `Once`.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use daiko::sync::{Barrier, Event, Once, RwLock, RwLockWriteGuard};
use daiko::{cancel, time};

use super::{Dice, Lap, Round, laps};

fn some(dice: &mut Dice) -> Duration {
    Duration::from_nanos(dice.roll() % 50_000)
}

/// Checks that no fiber writes while another reads, and that a write is seen whole.
pub(super) fn readers_and_writers(dice: &mut Dice, round: &Arc<Round>) {
    let shared = Arc::new(RwLock::new([0u64; 2]));
    let lap: Lap<RwLock<[u64; 2]>> = |dice, lock| {
        if dice.one_in(3) {
            return write(dice, lock);
        }
        let reader = match dice.below(4) {
            0 => lock.read_timeout(some(dice)).ok(),
            1 => lock.try_read().ok(),
            2 => time::timeout(some(dice), || lock.read().unwrap()).ok(),
            _ => Some(lock.read().unwrap()),
        };
        if let Some(reader) = reader {
            assert_still(&reader);
        }
    };
    let _ = laps(dice, round, &shared, lap);
    let counts = shared.try_write().expect("the lock is free");
    assert_eq!(counts[0], counts[1]);
}

fn write(dice: &mut Dice, lock: &RwLock<[u64; 2]>) {
    let writer = match dice.below(4) {
        0 => lock.write_timeout(some(dice)).ok(),
        1 => lock.try_write().ok(),
        2 => time::timeout(some(dice), || lock.write().unwrap()).ok(),
        _ => Some(lock.write().unwrap()),
    };
    let Some(mut writer) = writer else { return };
    writer[0] += 1;
    // A cancel waits, so that both numbers are changed.
    cancel::shield(daiko::yield_now);
    writer[1] += 1;
    if dice.one_in(3) {
        assert_still(&RwLockWriteGuard::downgrade(writer));
    }
}

fn assert_still(counts: &[u64; 2]) {
    let before = *counts;
    daiko::yield_now();
    assert_eq!((before, before[0]), (*counts, counts[1]));
}

/// An automatic event lets one fiber in at a time, a manual event lets all through.
pub(super) fn events(dice: &mut Dice, round: &Arc<Round>) {
    struct Gates {
        one: Event,
        all: Event,
        is_inside: AtomicBool,
    }
    let is_inside = AtomicBool::new(false);
    let shared = Arc::new(Gates { one: Event::auto(), all: Event::manual(), is_inside });
    shared.one.set();
    let lap: Lap<Gates> = |dice, gates| {
        match dice.below(6) {
            0 => gates.all.set(),
            1 => gates.all.reset(),
            2 => _ = gates.all.wait_timeout(some(dice)),
            _ => {}
        }
        let passed = match dice.below(3) {
            0 => gates.one.wait_timeout(some(dice)).is_ok(),
            1 => time::timeout(some(dice), || gates.one.wait()).is_ok(),
            _ => {
                gates.one.wait();
                true
            }
        };
        if passed {
            assert!(!gates.is_inside.swap(true, Ordering::Relaxed), "two are inside");
            cancel::shield(daiko::yield_now);
            gates.is_inside.store(false, Ordering::Relaxed);
            gates.one.set();
        }
    };
    let _ = laps(dice, round, &shared, lap);
    assert_eq!(shared.one.wait_timeout(Duration::ZERO), Ok(()), "a set was lost");
    assert!(!shared.one.is_set(), "a set was doubled");
}

/// Checks that as many fibers continue together as the barrier has parties, and that one of them
/// leads.
pub(super) fn barriers(dice: &mut Dice, round: &Arc<Round>) {
    let parties = 1 + dice.below(4);
    let (led, passed) = <[AtomicUsize; 2]>::default().into();
    let shared = Arc::new((Barrier::new(parties), led, passed));
    let lap: Lap<(Barrier, AtomicUsize, AtomicUsize)> = |dice, (barrier, led, passed)| {
        let time = some(dice);
        let result = match dice.below(2) {
            0 => barrier.wait_timeout(time).ok(),
            _ => time::timeout(time, || barrier.wait()).ok(),
        };
        if let Some(result) = result {
            passed.fetch_add(1, Ordering::Relaxed);
            led.fetch_add(usize::from(result.is_leader()), Ordering::Relaxed);
        }
    };
    let _ = laps(dice, round, &shared, lap);
    let [led, passed] = [&shared.1, &shared.2].map(|count| count.load(Ordering::Relaxed));
    // A fiber that was released, and was cancelled or out of time as it left, has not been counted
    // in `passed`.
    assert!(passed <= led * parties, "{passed} have passed, {led} of them led");
    if parties == 1 {
        assert_eq!(passed, led);
    }
}

/// A fiber that begins also completes, unless all of them are kept from it.
pub(super) fn once(dice: &mut Dice, round: &Arc<Round>) {
    let shared = Arc::new((Once::new(), AtomicUsize::new(0)));
    let lap: Lap<(Once, AtomicUsize)> = |dice, (once, done)| {
        let (pauses, panics, time) = (dice.below(3), dice.one_in(8), some(dice));
        let init = || {
            (0..pauses).for_each(|_| daiko::yield_now());
            if panics {
                panic::resume_unwind(Box::new(()));
            }
            done.fetch_add(1, Ordering::Relaxed);
        };
        let result = match dice.below(4) {
            // Waits for the fiber that runs the closure, as there may be none.
            0 => once.wait_force_timeout(time).is_ok(),
            1 if panics => {
                let forced = || once.call_once_force(|_| init());
                panic::catch_unwind(AssertUnwindSafe(forced)).is_ok()
            }
            1 => once.call_once_force_timeout(time, |_| init()).is_ok(),
            _ if panics => false,
            2 => time::timeout(time, || once.call_once_force(|_| init())).is_ok(),
            _ => {
                once.call_once_force(|_| init());
                true
            }
        };
        if result {
            assert_eq!(done.load(Ordering::Relaxed), 1);
        }
    };
    let _ = laps(dice, round, &shared, lap);
    let (once, done) = &*shared;
    assert_eq!(done.load(Ordering::Relaxed), usize::from(once.is_completed()));
}
