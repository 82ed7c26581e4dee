//! Attachments of which one may die at each of its steps, and the recovery by the rest.

use std::array;

use loom::sync::{Arc, Notify};

use super::*;
use crate::atomic::{AtomicBool, Ordering, fence};
use crate::modelled::{Death, spawn};

mod event;
mod lane;
mod mutex;
mod rwlock;
mod semaphore;

/// Attachments, known by their places. The models ring as callers do.
struct Attached<const N: usize> {
    dead: [AtomicBool; N],
    /// True for each attachment that has ever waited.
    listens: [AtomicBool; N],
    bells: [Notify; N],
}

impl<const N: usize> Attached<N> {
    fn new() -> Self {
        Self {
            dead: array::from_fn(|_| AtomicBool::new(false)),
            listens: array::from_fn(|_| AtomicBool::new(false)),
            bells: array::from_fn(|_| Notify::new()),
        }
    }

    fn holder(who: usize) -> Holder {
        Holder::new(who as u16, 1.try_into().unwrap())
    }

    fn is_dead(&self, holder: Holder) -> bool {
        // Acquire: pairs with the Release in `live`.
        self.dead[usize::from(holder.index())].load(Ordering::Acquire)
    }

    /// Runs `life` as one attachment; if it died, all attachments learn of it.
    fn live<R>(&self, who: usize, death: &Death, life: impl FnOnce() -> R) -> Option<R> {
        let lived = death.of(life);
        if lived.is_none() {
            self.dead[who].store(true, Ordering::Release);
            self.bells.iter().for_each(Notify::notify);
        }
        lived
    }

    fn ring(&self, who: usize) {
        for other in (0..N).filter(|&other| other != who) {
            // Relaxed: the object orders it.
            if self.listens[other].load(Ordering::Relaxed) {
                self.bells[other].notify();
            }
        }
    }

    /// Rings behind a fence, for conditions that change by a store.
    fn ring_fenced(&self, who: usize) {
        fence(Ordering::SeqCst);
        self.ring(who);
    }

    /// Announces that this attachment will wait, before it tells the object.
    fn listen(&self, who: usize) {
        self.listens[who].store(true, Ordering::Relaxed);
    }

    /// Sleeps until the condition of this attachment holds. It looks again when it is rung for, or
    /// when an attachment is known to have died.
    fn sleep(&self, who: usize, until: impl Fn() -> bool) {
        while !until() {
            self.bells[who].wait();
        }
    }

    /// Sleeps likewise, for a condition that changes by a store.
    fn sleep_fenced(&self, who: usize, until: impl Fn() -> bool) {
        self.listen(who);
        fence(Ordering::SeqCst);
        self.sleep(who, until);
    }

    /// Sleeps until `by`, which was `seen` to have the lock, has left or is dead.
    fn sleep_for(&self, who: usize, mutex: &RobustMutex, by: Holder, seen: SeenWord) {
        self.listen(who);
        if let Some(seen) = mutex.wait_for(seen) {
            self.sleep(who, || mutex.has_changed(seen) || self.is_dead(by));
        }
    }
}
