//! Interrupts of a waiter by another thread, in whatever queue it waits.
//!
//! README.md beside this file has the steps and the proof.

use std::ptr;

use crate::atomic::{AtomicBool, AtomicPtr, Ordering, fence, spin_loop};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// The interrupts of one waiter, with a description `W` of its present wait.
///
/// Budget of a wait without interrupts: two stores, two loads and a compare-exchange, on one line.
pub struct Interrupts<W> {
    /// True if an interrupt has come that the waiter has not attended to.
    due: AtomicBool,
    /// The present wait; null: there is none; `busy`: an interrupter has it.
    wait: AtomicPtr<W>,
}

/// Stands for a wait that an interrupter has.
fn busy<W>() -> *mut W {
    ptr::without_provenance_mut(1)
}

impl<W> Interrupts<W> {
    /// Creates the interrupts of a waiter that does not wait.
    #[allow(clippy::new_without_default, reason = "the fields of a waiter are written one by one")]
    pub fn new() -> Self {
        const { assert!(align_of::<W>() > 1, "an address differs from that of `busy`") };
        Interrupts { due: AtomicBool::new(false), wait: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns true if an interrupt has come. A waiter asks once its node is in a queue.
    #[inline]
    pub fn are_due(&self) -> bool {
        // Relaxed: ordered by the fence behind the node's enqueuing.
        self.due.load(Ordering::Relaxed)
    }

    /// Notes that the waiter attends to its interrupts.
    pub fn clear(&self) {
        self.due.store(false, Ordering::Relaxed);
    }

    /// Publishes the wait of the calling waiter, which enqueues its node next, with a fence behind.
    ///
    /// # Safety
    ///
    /// The waiter [retracts](Self::retract) it before it goes.
    #[inline]
    pub unsafe fn publish(&self, wait: &W) {
        let order =
            if cfg!(weaken = "interrupt-publish") { Ordering::Relaxed } else { Ordering::Release };
        // Release: pairs with the Acquire of the exchange in `interrupt`.
        self.wait.store(ptr::from_ref(wait).cast_mut(), order);
    }

    /// Takes the published `wait` back, from an interrupter if it has the wait.
    #[inline]
    pub fn retract(&self, wait: &W) {
        let wait = ptr::from_ref(wait).cast_mut();
        let none = ptr::null_mut();
        if cfg!(weaken = "interrupt-retract") {
            self.wait.store(none, Ordering::Relaxed);
            return;
        }
        // Acquire: pairs with the Release in `interrupt`, which gives the wait back.
        while self
            .wait
            .compare_exchange_weak(wait, none, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            spin_loop();
        }
    }

    /// Lets the waiter know of an interrupt. If it has published a wait, ends that by `end`, and
    /// returns the result. One caller at a time.
    pub fn interrupt<R>(&self, end: impl FnOnce(&W) -> R) -> Option<R> {
        self.due.store(true, Ordering::Relaxed);
        if !cfg!(weaken = "interrupt-due") {
            // Pairs with the fence behind the node's enqueuing: either the load below sees the
            // wait, or the waiter sees the interrupt.
            fence(Ordering::SeqCst);
        }
        let wait = self.wait.load(Ordering::Relaxed);
        if wait.is_null() {
            return None;
        }
        // Acquire: pairs with the Release in `publish`.
        self.wait.compare_exchange(wait, busy(), Ordering::Acquire, Ordering::Relaxed).ok()?;
        // SAFETY: the waiter does not go before the wait is back in its place.
        let result = end(unsafe { &*wait });
        let order =
            if cfg!(weaken = "interrupt-back") { Ordering::Relaxed } else { Ordering::Release };
        // Release: pairs with the Acquire in `retract`.
        self.wait.store(wait, order);
        Some(result)
    }
}
