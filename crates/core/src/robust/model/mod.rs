//! Attachments of which one may die at each of its steps, and the recovery by the rest.

use std::array;

use loom::sync::{Arc, Notify};

use super::*;
use crate::atomic::{AtomicBool, Ordering, fence};
use crate::modelled::{Death, spawn};

mod barrier;
mod condvar;
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

    fn holder(actor: usize) -> Holder {
        Holder::new(actor as u16, 1.try_into().unwrap())
    }

    fn is_dead(&self, holder: Holder) -> bool {
        // Acquire: pairs with the Release in `live`.
        self.dead[usize::from(holder.index())].load(Ordering::Acquire)
    }

    /// Runs `life` as one attachment; if it died, all attachments learn of it.
    fn live<R>(&self, actor: usize, death: &Death, life: impl FnOnce() -> R) -> Option<R> {
        let lived = death.of(life);
        if lived.is_none() {
            self.dead[actor].store(true, Ordering::Release);
            self.bells.iter().for_each(Notify::notify);
        }
        lived
    }

    fn ring(&self, actor: usize) {
        for other in (0..N).filter(|&other| other != actor) {
            // Relaxed: the object orders it.
            if self.listens[other].load(Ordering::Relaxed) {
                self.bells[other].notify();
            }
        }
    }

    /// Rings behind a fence, for conditions that change by a store.
    fn ring_fenced(&self, actor: usize) {
        fence(Ordering::SeqCst);
        self.ring(actor);
    }

    /// Announces that this attachment will wait, before it tells the object.
    fn listen(&self, actor: usize) {
        self.listens[actor].store(true, Ordering::Relaxed);
    }

    /// Sleeps until the condition of this attachment holds. It looks again when it is rung for, or
    /// when an attachment is known to have died.
    fn sleep(&self, actor: usize, until: impl Fn() -> bool) {
        while !until() {
            self.bells[actor].wait();
        }
    }

    /// Sleeps likewise, for a condition that changes by a store.
    fn sleep_fenced(&self, actor: usize, until: impl Fn() -> bool) {
        self.listen(actor);
        fence(Ordering::SeqCst);
        self.sleep(actor, until);
    }

    /// Sleeps until `by`, which was `seen` to have the lock, has left or is dead.
    fn sleep_for(&self, actor: usize, mutex: &RobustMutex, by: Holder, seen: SeenWord) {
        self.listen(actor);
        if let Some(seen) = mutex.wait_for(seen) {
            self.sleep(actor, || mutex.has_changed(seen) || self.is_dead(by));
        }
    }
}
