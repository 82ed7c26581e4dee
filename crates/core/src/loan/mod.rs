//! The loan of a kernel thread's context to workers, and the signals that call it back.
//!
//! README.md beside this file has the states, the steps and the proof. Switches, sleeps and signals
//! are the caller's.

mod poke;

pub use poke::PokeWord;

use std::ptr::NonNull;

use crate::atomic::{AtomicU32, Ordering, UnsafeCell, unless_weakened};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// A context `C` that its kernel thread lends to workers, which run it as a fiber `F`.
///
/// ```text
///           lend                         a worker resumes
///  HERE ───────────> LENT: published ─────────────────────> LENT: a fiber
///   ^                                                            │
///   └────────────────── go home: off its stack ──────────────────┘
/// ```
///
/// Budget of a loan: two stores and a load, of one line.
#[repr(C)]
#[derive(Debug)]
pub struct Loan<C, F> {
    /// `LENT` or `HERE`: the word that the kernel thread sleeps on.
    stage: AtomicU32,
    /// The context, once it has left a worker for its home. Written by that worker.
    context: UnsafeCell<C>,
    /// The fiber that the context becomes, until it is published. Only the kernel thread, which
    /// runs the context at that time.
    fiber: UnsafeCell<Option<F>>,
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(std::mem::offset_of!(Loan<usize, usize>, stage) == 0, "debuggers read it");

// SAFETY: the fields say which thread uses them; the stage and the publication pass them on.
unsafe impl<C: Send, F: Send> Sync for Loan<C, F> {}

/// The context runs on its own kernel thread.
const HERE: u32 = 0;
/// The context is a fiber, or about to become one.
const LENT: u32 = 1;

impl<C: Copy, F> Loan<C, F> {
    /// Creates the loan of a context that is at home. `none` is a placeholder, which is never
    /// resumed.
    pub fn new(none: C) -> Self {
        Loan {
            stage: AtomicU32::new(HERE),
            context: UnsafeCell::new(none),
            fiber: UnsafeCell::new(None),
        }
    }

    /// Begins a loan. The calling context then leaves its stack, and its kernel thread
    /// [keeps](Self::keep) to another one.
    ///
    /// # Safety
    ///
    /// The calling context is that of the loan, at home.
    pub unsafe fn depart(&self, fiber: F) {
        // SAFETY: only this kernel thread uses the field.
        self.fiber.with_mut(|place| unsafe { *place = Some(fiber) });
        if !cfg!(weaken = "loan-depart") {
            // Relaxed: the kernel thread itself reads it, and publishes the fiber behind it.
            self.stage.store(LENT, Ordering::Relaxed);
        }
    }

    /// Calls `publish` with the fiber, then waits until the context has come home. Returns the
    /// context, to be resumed once. `sleep` sleeps while the word holds the number; it may return
    /// at any time.
    ///
    /// # Safety
    ///
    /// The kernel thread of the loan calls, behind [`depart`](Self::depart), and the context has
    /// left its stack.
    pub unsafe fn keep(
        &self,
        publish: impl FnOnce(F),
        mut sleep: impl FnMut(&AtomicU32, u32),
    ) -> C {
        // SAFETY: as in `depart`.
        if let Some(fiber) = self.fiber.with_mut(|place| unsafe { (*place).take() }) {
            publish(fiber);
        }
        if cfg!(weaken = "loan-depart") {
            self.stage.store(LENT, Ordering::Relaxed);
        }
        // Acquire: pairs with the Release in `receive`.
        let acquire = unless_weakened!("loan-keep", Ordering::Acquire);
        while self.stage.load(acquire) == LENT {
            sleep(&self.stage, LENT);
            if cfg!(weaken = "loan-sleep") {
                break;
            }
        }
        // SAFETY: the worker has written it, and does not use it any more.
        self.context.with(|context| unsafe { *context })
    }

    /// Ends the loan on a worker: lets the kernel thread go on with `context`, which has left its
    /// stack. `wake` wakes a thread that sleeps on the word.
    ///
    /// # Safety
    ///
    /// The calling worker has run the context. The loan is alive until the store of the stage;
    /// afterwards it may be gone: `wake` uses the address only, and may find no thread, or one that
    /// sleeps for another reason.
    pub unsafe fn receive(this: NonNull<Self>, context: C, wake: impl FnOnce(*const AtomicU32)) {
        // SAFETY: alive until the store, by this function's contract.
        let stage = unsafe { &raw const (*this.as_ptr()).stage };
        // SAFETY: alive; the kernel thread reads the field behind the store only.
        let write = || unsafe { this.as_ref().context.with_mut(|place| *place = context) };
        // Release: pairs with the Acquire in `keep`.
        let release = unless_weakened!("loan-receive", Ordering::Release);
        // SAFETY: as above.
        let store = || unsafe { (*stage).store(HERE, release) };
        if cfg!(weaken = "loan-wake") {
            write();
            wake(stage);
            store();
            return;
        }
        if cfg!(weaken = "loan-context") {
            store();
            write();
        } else {
            write();
            store();
        }
        wake(stage);
    }
}
