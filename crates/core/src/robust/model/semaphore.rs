//! Permits with holders that die.

use loom::cell::UnsafeCell;

use super::*;
use crate::modelled::dies_at_each_step;

struct Shared<const P: usize> {
    attached: Attached<3>,
    semaphore: RobustSemaphore,
    permits: [RobustPermit; P],
    /// A count for each permit, touched by its holder.
    counts: [UnsafeCell<u32>; P],
}

// SAFETY: the model checks that only the holder of a permit touches its count.
unsafe impl<const P: usize> Sync for Shared<P> {}
// SAFETY: as for Sync.
unsafe impl<const P: usize> Send for Shared<P> {}

const VICTIM: usize = 0;

impl<const P: usize> Shared<P> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            attached: Attached::new(),
            semaphore: RobustSemaphore::new(),
            permits: array::from_fn(|_| RobustPermit::new()),
            counts: array::from_fn(|_| UnsafeCell::new(0)),
        })
    }

    fn try_acquire(&self, actor: usize) -> Acquire {
        let is_dead = |holder| self.attached.is_dead(holder);
        let acquired =
            self.semaphore.try_acquire(Attached::<3>::holder(actor), &self.permits, 0, is_dead);
        if let Acquire::Acquired(permit) = acquired {
            // SAFETY: one attachment has the permit.
            self.counts[permit].with_mut(|count| unsafe { *count += 1 });
        }
        acquired
    }

    /// Acquires, and waits as callers do: a waiter that learns of the death sweeps.
    fn acquire(&self, actor: usize) -> usize {
        let victim = Attached::<3>::holder(VICTIM);
        let mut swept = false;
        loop {
            let seen = match self.try_acquire(actor) {
                Acquire::Acquired(permit) => return permit,
                Acquire::Exhausted(seen) => seen,
            };
            let died = || !swept && self.attached.is_dead(victim);
            self.attached.sleep_fenced(actor, || self.semaphore.has_changed(seen) || died());
            if died() {
                self.sweep(actor, victim);
                swept = true;
            }
        }
    }

    fn sweep(&self, actor: usize, dead: Holder) {
        self.semaphore.sweep(&self.permits, dead);
        self.attached.ring_fenced(actor);
    }

    fn give_back(&self, actor: usize, permit: usize) {
        assert!(self.semaphore.give_back(Attached::<3>::holder(actor), &self.permits, permit));
        self.attached.ring_fenced(actor);
    }

    fn count(&self, actor: usize) -> usize {
        std::iter::from_fn(|| match self.try_acquire(actor) {
            Acquire::Acquired(permit) => Some(permit),
            Acquire::Exhausted(_) => None,
        })
        .count()
    }
}

#[test]
fn a_permit_comes_back_from_the_dead_once() {
    dies_at_each_step(2, |death| {
        let shared = Shared::<1>::new();
        let victim = spawn(&shared, {
            let death = death.clone();
            move |shared| {
                shared.attached.live(VICTIM, &death, || {
                    let permit = shared.acquire(VICTIM);
                    shared.give_back(VICTIM, permit);
                })
            }
        });
        let permit = shared.acquire(1);
        shared.give_back(1, permit);
        victim.join().unwrap();
        assert_eq!(shared.count(1), 1);
    });
}

#[test]
fn each_of_two_waiters_gets_a_permit_though_a_holder_dies() {
    dies_at_each_step(1, |death| {
        let shared = Shared::<1>::new();
        let victim = spawn(&shared, {
            let death = death.clone();
            move |shared| {
                shared.attached.live(VICTIM, &death, || {
                    let permit = shared.acquire(VICTIM);
                    shared.give_back(VICTIM, permit);
                })
            }
        });
        let other = spawn(&shared, |shared| {
            let permit = shared.acquire(2);
            shared.give_back(2, permit);
        });
        let permit = shared.acquire(1);
        shared.give_back(1, permit);
        other.join().unwrap();
        victim.join().unwrap();
        assert_eq!(shared.count(1), 1);
    });
}

#[test]
fn a_late_sweep_takes_nothing_from_the_living() {
    dies_at_each_step(2, |death| {
        let shared = Shared::<2>::new();
        let dead = Attached::<3>::holder(2);
        for permit in 0..2 {
            let acquired = shared.semaphore.try_acquire(dead, &shared.permits, permit, |_| false);
            assert_eq!(acquired, Acquire::Acquired(permit));
        }
        shared.attached.dead[2].store(true, Ordering::Release);
        // The victim may die in the middle of its sweep.
        let victim = spawn(&shared, {
            let death = death.clone();
            move |shared| shared.attached.live(VICTIM, &death, || shared.sweep(VICTIM, dead))
        });
        shared.sweep(1, dead);
        assert_eq!(shared.count(1), 2);
        victim.join().unwrap();
        assert_eq!(shared.count(1), 0);
    });
}

#[test]
fn a_permit_that_is_handed_over_is_one_of_the_two_or_comes_back() {
    dies_at_each_step(2, |death| {
        let shared = Shared::<1>::new();
        let [from, to] = [VICTIM, 1].map(Attached::<3>::holder);
        let victim = spawn(&shared, {
            let death = death.clone();
            move |shared| {
                shared.attached.live(VICTIM, &death, || match shared.try_acquire(VICTIM) {
                    Acquire::Acquired(permit) => {
                        shared.semaphore.hand_over(from, &shared.permits, permit, to)
                    }
                    Acquire::Exhausted(_) => false,
                })
            }
        });
        let mine = shared.try_acquire(1) == Acquire::Acquired(0);
        let handed = victim.join().unwrap();
        if mine || handed == Some(true) {
            shared.give_back(1, 0);
        }
        assert_eq!(shared.count(1), 1);
    });
}
