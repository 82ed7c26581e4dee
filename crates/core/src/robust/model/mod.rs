//! Attachments of which one may die at each of its steps, and what the others then do.

use std::array;

use loom::sync::{Arc, Notify};

use super::*;
use crate::modelled::{Death, spawn};
use crate::sync::{AtomicBool, Ordering};

mod event;
mod lane;
mod mutex;

/// Attachments, known by their places. What they do is rung for as callers do it.
struct Attached<const N: usize> {
    dead: [AtomicBool; N],
    /// Who has ever waited.
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

    /// Is `who` for the time of `life`; if it died, all learn of it.
    fn live<R>(&self, who: usize, death: &Death, life: impl FnOnce() -> R) -> Option<R> {
        let lived = death.of(life);
        if lived.is_none() {
            self.dead[who].store(true, Ordering::Release);
            self.bells.iter().for_each(Notify::notify);
        }
        lived
    }

    /// Rings for all who wait.
    fn ring(&self) {
        for (listens, bell) in self.listens.iter().zip(&self.bells) {
            // Relaxed: what makes this one seen is up to the object.
            if listens.load(Ordering::Relaxed) {
                bell.notify();
            }
        }
    }

    /// To be called before `who` says that it waits.
    fn listen(&self, who: usize) {
        self.listens[who].store(true, Ordering::Relaxed);
    }

    /// Until somebody rings for `who`, or is known to have died.
    fn sleep(&self, who: usize) {
        self.bells[who].wait();
    }
}
