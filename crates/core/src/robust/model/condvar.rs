//! A condition with a waiter, or a notifier, that dies.

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU32 as Note;

use super::*;
use crate::modelled::{bounded, dies_at_each_step};

const VICTIM: usize = 0;

struct Shared<const E: usize> {
    attached: Attached<3>,
    mutex: RobustMutex,
    condvar: RobustCondvar,
    entries: [CondvarEntry; E],
    /// Changed under the mutex; no step of its own.
    items: Note,
    /// Written before a notification.
    datum: UnsafeCell<u32>,
}

// SAFETY: the model checks that a notification hands the datum over.
unsafe impl<const E: usize> Sync for Shared<E> {}
// SAFETY: as for Sync.
unsafe impl<const E: usize> Send for Shared<E> {}

impl<const E: usize> Shared<E> {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            attached: Attached::new(),
            mutex: RobustMutex::new(),
            condvar: RobustCondvar::new(),
            entries: array::from_fn(|_| CondvarEntry::new()),
            items: Note::new(0),
            datum: UnsafeCell::new(0),
        })
    }

    fn is_dead(&self, holder: Holder) -> bool {
        self.attached.is_dead(holder)
    }

    fn lock(&self, actor: usize) {
        loop {
            let me = Attached::<3>::holder(actor);
            match self.mutex.try_lock(me, |holder| self.is_dead(holder)) {
                Lock::Locked(_) => return,
                Lock::Contended => {}
                Lock::Held { by, seen } => self.attached.sleep_for(actor, &self.mutex, by, seen),
            }
        }
    }

    fn unlock(&self, actor: usize) {
        if self.mutex.unlock(Attached::<3>::holder(actor)) == Unlock::Ring {
            self.attached.ring(actor);
        }
    }

    fn count(&self, change: i32) -> u32 {
        let items = self.items.load(Ordering::Relaxed).wrapping_add_signed(change);
        self.items.store(items, Ordering::Relaxed);
        items
    }

    /// Waits until there is an item, and takes it.
    fn take(&self, actor: usize) {
        let me = Attached::<3>::holder(actor);
        self.lock(actor);
        while self.count(0) == 0 {
            let wait = self.condvar.enter(me, &self.entries, |holder| self.is_dead(holder));
            let dead = self.is_dead(Attached::<3>::holder(VICTIM));
            self.unlock(actor);
            self.attached.sleep_fenced(actor, || {
                self.condvar.is_notified(me, &self.entries, wait)
                    || !dead && self.is_dead(Attached::<3>::holder(VICTIM))
            });
            let _ = self.condvar.leave(me, &self.entries, wait);
            self.lock(actor);
        }
        self.count(-1);
        self.unlock(actor);
    }

    /// Makes an item, and notifies one waiter, or all.
    fn make(&self, actor: usize, all: bool) {
        self.lock(actor);
        self.count(1);
        self.unlock(actor);
        match all {
            false => self.condvar.notify_one(&self.entries, |holder| self.is_dead(holder)),
            true => self.condvar.notify_all(&self.entries),
        }
        self.attached.ring_fenced(actor);
    }
}

/// Two waiters, of which one may die; an item for each that lives, or the rest of the other.
fn a_waiter_dies<const E: usize>(death: &crate::modelled::Death) {
    let shared = Shared::<E>::new();
    let victim = spawn(&shared, {
        let death = death.clone();
        move |shared| shared.attached.live(VICTIM, &death, || shared.take(VICTIM))
    });
    let other = spawn(&shared, |shared| shared.take(1));
    shared.make(2, false);
    shared.make(2, false);
    other.join().unwrap();
    victim.join().unwrap();
}

#[test]
fn a_notification_of_a_waiter_that_dies_is_not_lost() {
    dies_at_each_step(1, a_waiter_dies::<2>);
}

#[test]
fn waiters_without_an_entry_are_woken_too() {
    dies_at_each_step(1, a_waiter_dies::<1>);
}

#[test]
fn what_a_dead_notifier_made_is_found() {
    dies_at_each_step(2, |death| {
        let shared = Shared::<2>::new();
        let victim = spawn(&shared, {
            let death = death.clone();
            move |shared| shared.attached.live(VICTIM, &death, || shared.make(VICTIM, false))
        });
        let waiter = spawn(&shared, |shared| shared.take(1));
        if victim.join().unwrap().is_none() && shared.items.load(Ordering::Relaxed) == 0 {
            // It died before it had made one, or the waiter has it.
            shared.make(2, true);
        }
        waiter.join().unwrap();
    });
}

/// The one waiter that is notified died before; its death becomes known afterwards.
#[test]
fn a_waiter_that_wakes_by_a_death_sees_what_was_notified_to_the_dead() {
    bounded(3, || {
        let shared = Shared::<2>::new();
        let dead = Attached::<3>::holder(VICTIM);
        let _ = shared.condvar.enter(dead, &shared.entries, |_| false);
        let maker = spawn(&shared, |shared| {
            shared.items.store(1, Ordering::Relaxed);
            shared.condvar.notify_one(&shared.entries, |holder| shared.is_dead(holder));
        });
        let me = Attached::<3>::holder(1);
        let wait = shared.condvar.enter(me, &shared.entries, |_| false);
        shared.attached.dead[VICTIM].store(true, Ordering::Release);
        let woken = shared.condvar.leave(me, &shared.entries, wait);
        let seen = shared.items.load(Ordering::Relaxed);
        maker.join().unwrap();
        let lost = shared.condvar.is_notified(dead, &shared.entries, CondvarWait::Entry(0));
        assert!(woken || seen == 1 || !lost, "slept through");
    });
}

#[test]
fn each_of_two_notifications_wakes_a_waiter() {
    bounded(2, || {
        let shared = Shared::<2>::new();
        let waits = [0, 1].map(|actor| {
            let me = Attached::<3>::holder(actor);
            (me, shared.condvar.enter(me, &shared.entries, |_| false))
        });
        let notify = |shared: &Shared<2>| shared.condvar.notify_one(&shared.entries, |_| false);
        let other = spawn(&shared, notify);
        notify(&shared);
        other.join().unwrap();
        for (me, wait) in waits {
            assert!(shared.condvar.leave(me, &shared.entries, wait));
        }
    });
}

#[test]
fn a_woken_waiter_sees_the_writes_before_the_notification() {
    loom::model(|| {
        let shared = Shared::<1>::new();
        let me = Attached::<3>::holder(1);
        let wait = shared.condvar.enter(me, &shared.entries, |_| false);
        let notifier = spawn(&shared, |shared| {
            // SAFETY: read by the waiter that is woken afterwards.
            shared.datum.with_mut(|datum| unsafe { *datum = 5 });
            shared.condvar.notify_all(&shared.entries);
        });
        if shared.condvar.leave(me, &shared.entries, wait) {
            // SAFETY: written before the notification.
            assert_eq!(shared.datum.with(|datum| unsafe { *datum }), 5);
        }
        notifier.join().unwrap();
    });
}
