//! Atomics for models with threads that may die: the modeller's own, with a step before each access
//! at which the thread may stop for ever.
//!
//! A killed process stops between two of its steps and runs nothing more. A modelled thread cannot
//! be stopped without an end, so it unwinds to where its life began; the destructors on the way act
//! on copies, so that no other thread sees them. Cells have no steps: data that survivors read of
//! the dead has to be atomic anyway. A thread that may die must not run destructors that write to
//! cells, or that wait for other threads.
#![allow(clippy::disallowed_types, reason = "part of the door")]
#![allow(dead_code, reason = "the module offers items that either build may need")]
#![allow(
    unreachable_pub,
    missing_docs,
    reason = "where these stand for std's, public items name them"
)]

use std::cell::Cell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[cfg(loom)]
use loom as source;
#[cfg(shuttle)]
use shuttle as source;

use super::{Ordering, const_fn};
use source::thread::{ThreadId, current};

/// The payload with which a dying thread unwinds.
struct Died;

/// The one thread of an execution that may die.
#[derive(Clone, Copy)]
struct Mortal {
    thread: ThreadId,
    /// Number of accesses that take place before it dies.
    steps: usize,
    dead: bool,
}

thread_local! {
    // Std's, not the modeller's: an execution has one kernel thread for all of its threads.
    static MORTAL: Cell<Option<Mortal>> = const { Cell::new(None) };
}

/// Runs `life` on this thread, which dies before its access number `steps`, counted from 0. Returns
/// its result, or `None` if it died. One thread at a time, of each execution.
pub(crate) fn live<R>(steps: usize, life: impl FnOnce() -> R) -> Option<R> {
    let mortal = Mortal { thread: current().id(), steps, dead: false };
    assert!(MORTAL.replace(Some(mortal)).is_none(), "two that may die");
    // The broken state is not looked at: the thread leaves only the shared memory, which is sound
    // to all survivors.
    let lived = catch_unwind(AssertUnwindSafe(life));
    MORTAL.set(None);
    match lived {
        Ok(result) => Some(result),
        Err(cause) if cause.is::<Died>() => None,
        Err(cause) => resume_unwind(cause),
    }
}

/// Returns true if other threads see the access that follows.
fn takes_place() -> bool {
    let Some(mut mortal) = MORTAL.get().filter(|mortal| mortal.thread == current().id()) else {
        return true;
    };
    if mortal.dead {
        return false;
    }
    mortal.dead = mortal.steps == 0;
    mortal.steps = mortal.steps.saturating_sub(1);
    MORTAL.set(Some(mortal));
    if mortal.dead {
        // No message: this is no fault.
        resume_unwind(Box::new(Died));
    }
    true
}

/// An atomic that counts each access to it as a step.
#[derive(Debug, Default)]
pub struct Step<A>(A);

impl<A: Copied> Deref for Step<A> {
    type Target = A;

    fn deref(&self) -> &A {
        // Leaked, as these are few: one for each access in a destructor that runs as a thread dies.
        if takes_place() { &self.0 } else { Box::leak(Box::new(self.0.copied())) }
    }
}

pub trait Copied {
    /// Returns a new atomic with the same value.
    fn copied(&self) -> Self;
}

macro_rules! steps {
    ($($name:ident $(<$t:ident>)?: $value:ty),*) => {$(
        pub type $name $(<$t>)? = Step<source::sync::atomic::$name $(<$t>)?>;

        impl $(<$t>)? $name $(<$t>)? {
            const_fn! {
                pub const fn new(value: $value) -> Self {
                    Self(source::sync::atomic::$name::new(value))
                }
            }
        }

        impl $(<$t>)? Copied for source::sync::atomic::$name $(<$t>)? {
            fn copied(&self) -> Self {
                Self::new(self.load(Ordering::Relaxed))
            }
        }
    )*};
}

steps!(AtomicBool: bool, AtomicPtr<T>: *mut T, AtomicU8: u8, AtomicU16: u16, AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize);
