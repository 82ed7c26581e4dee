//! Holders, sleepers, and a holder that dies.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};

use super::*;
use crate::atomic::AtomicBool;
use crate::modelled::{bounded, dies_at_each_step, spawn};

/// The thread that may die.
const VICTIM: u32 = 1;

struct Shared {
    lock: LockWord,
    value: UnsafeCell<u32>,
    /// The futex: under this, a look at the word and the beginning of a sleep are one step.
    futex: Mutex<()>,
    wake: Condvar,
    victim_is_dead: AtomicBool,
}

// SAFETY: the value is touched under the lock only, which the models check.
unsafe impl Sync for Shared {}
// SAFETY: as for Sync.
unsafe impl Send for Shared {}

impl FutexWait for Shared {
    fn sleep(&self, word: &AtomicU32, expected: u32) -> Slept {
        if self.victim_is_dead.load(Ordering::Relaxed) && expected & !LockWord::WAITED == VICTIM {
            return Slept::TimedOut;
        }
        let asleep = self.futex.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(self.wake.wait(asleep).unwrap());
        }
        Slept::Looks
    }

    fn is_dead(&self, holder: u32) -> bool {
        holder == VICTIM
    }
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Shared {
            lock: LockWord::new(),
            value: UnsafeCell::new(0),
            futex: Mutex::new(()),
            wake: Condvar::new(),
            victim_is_dead: AtomicBool::new(false),
        })
    }

    fn take(&self, holder: u32) {
        if !self.lock.try_take(holder) {
            self.lock.take_slow(holder, self);
        }
    }

    fn free(&self) {
        if self.lock.free() == Freed::Waited {
            let _asleep = self.futex.lock().unwrap();
            self.wake.notify_one();
        }
    }

    fn add(&self, holder: u32) {
        self.take(holder);
        // SAFETY: the lock is held.
        self.value.with_mut(|value| unsafe { *value += 1 });
        self.free();
    }

    fn value(&self) -> u32 {
        // SAFETY: the other threads have ended.
        self.value.with(|value| unsafe { *value })
    }
}

/// Uses no sleeps: their own synchronisation would hide that of the word.
#[test]
fn holders_exclude_each_other() {
    loom::model(|| {
        let shared = Shared::new();
        let tries = |shared: &Shared, holder: u32| {
            let taken = shared.lock.try_take(holder);
            if taken {
                // SAFETY: the lock is held.
                shared.value.with_mut(|value| unsafe { *value += 1 });
                let _ = shared.lock.free();
            }
            u32::from(taken)
        };
        let other = spawn(&shared, move |shared| tries(shared, 2));
        let mine = tries(&shared, 3);
        let both = mine + other.join().unwrap();
        assert!(both >= 1);
        assert_eq!(shared.value(), both);
    });
}

#[test]
fn sleepers_are_woken_one_after_the_other() {
    bounded(2, || {
        let shared = Shared::new();
        let others = [2, 3].map(|holder| spawn(&shared, move |shared| shared.add(holder)));
        shared.add(4);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(shared.value(), 3);
        assert_eq!(shared.lock.holder(), None);
    });
}

#[test]
fn of_the_waiters_for_a_dead_holder_one_takes_its_place() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        let victim = {
            let death = death.clone();
            spawn(&shared, move |shared| {
                death.of(|| {
                    shared.take(VICTIM);
                    let _ = shared.lock.free();
                })
            })
        };
        let dead = victim.join().unwrap().is_none();
        shared.victim_is_dead.store(dead, Ordering::Relaxed);
        let other = spawn(&shared, |shared| shared.add(2));
        shared.add(3);
        other.join().unwrap();
        assert_eq!(shared.value(), 2);
        assert_eq!(shared.lock.holder(), None);
    });
}
