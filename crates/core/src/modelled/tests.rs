//! A thread of a model dies at each of its steps, and takes no step afterwards.

use std::collections::BTreeSet;
use std::sync::{Arc as Plain, Mutex};

use super::*;
use crate::atomic::AtomicU32;
use crate::lock::QueueLock;

/// Counts in three steps, and resets the count when it is dropped.
struct Count<'c>(&'c AtomicU32);

impl Drop for Count<'_> {
    fn drop(&mut self) {
        // Seen by other threads only if the thread lives.
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Returns the observations after each of the deaths of a counting thread.
fn seen(after: fn(Count<'_>)) -> BTreeSet<(bool, u32)> {
    let seen = Plain::new(Mutex::new(BTreeSet::new()));
    let sees = seen.clone();
    dies_at_each_step(2, move |death| {
        let count = Arc::new(AtomicU32::new(0));
        let death = death.clone();
        let victim = spawn(&count, move |count| {
            death.of(|| {
                let counting = Count(count);
                (1..=3).for_each(|i| count.store(i, Ordering::Relaxed));
                after(counting);
            })
        });
        let lived = victim.join().unwrap().is_some();
        sees.lock().unwrap().insert((lived, count.load(Ordering::Relaxed)));
    });
    Plain::into_inner(seen).unwrap().into_inner().unwrap()
}

#[test]
fn a_thread_dies_before_each_of_its_steps() {
    assert_eq!(
        seen(|counting| std::mem::forget(counting)),
        BTreeSet::from([(false, 0), (false, 1), (false, 2), (true, 3)])
    );
}

#[test]
fn the_destructors_of_the_dead_have_no_effect() {
    assert_eq!(
        seen(|counting| drop(counting)),
        BTreeSet::from([(false, 0), (false, 1), (false, 2), (false, 3), (true, 0)])
    );
}

#[test]
fn a_life_without_a_death_goes_on() {
    dies_at_each_step(2, |death| {
        let counts = Arc::new([(); 2].map(|()| AtomicU32::new(0)));
        let death = death.clone();
        let count =
            |count: &AtomicU32| (0..2).for_each(|_| _ = count.fetch_add(1, Ordering::Relaxed));
        let victim = spawn(&counts, move |counts| death.of(|| count(&counts[0])));
        count(&counts[1]);
        assert_eq!(counts[1].load(Ordering::Relaxed), 2);
        let lived = victim.join().unwrap().is_some();
        assert_eq!(counts[0].load(Ordering::Relaxed) == 2, lived);
    });
}

#[test]
#[should_panic(expected = "held by the dead")]
fn a_lock_that_stays_with_the_dead_is_found() {
    dies_at_each_step(2, |death| {
        let lock = Arc::new(QueueLock::new());
        let death = death.clone();
        let victim = spawn(&lock, move |lock| death.of(|| drop(lock.lock(&Waiters::<2>::by(1)))));
        victim.join().unwrap();
        assert!(lock.try_lock(&Waiters::<2>::by(0)).is_some(), "held by the dead");
    });
}
