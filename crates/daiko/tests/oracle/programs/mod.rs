//! The programs, against the library that the module around this one names.

use super as library;

pub(crate) mod channel;
pub(crate) mod crowd;
pub(crate) mod flow;
pub(crate) mod lock;
pub(crate) mod meeting;
pub(crate) mod once;
pub(crate) mod permits;
pub(crate) mod rwlock;
pub(crate) mod stream;

use std::panic::{self, AssertUnwindSafe};
use std::sync::LockResult;

use crate::plan::Saw;

/// Panics, without the hook.
fn panic() -> ! {
    panic::resume_unwind(Box::new(()))
}

/// Runs a closure that panics, and catches the panic.
fn catch<R>(panics: impl FnOnce() -> R) {
    assert!(panic::catch_unwind(AssertUnwindSafe(panics)).is_err());
}

/// Panics while it holds `held`, and catches that.
fn panic_with<T>(held: T) {
    catch(|| {
        let _held = held;
        panic()
    });
}

/// Returns the value under a lock, and whether the lock is poisoned.
fn saw<T>(locked: &LockResult<T>, value: impl Fn(&T) -> i64) -> Saw {
    match locked {
        Ok(it) => Saw::Value { value: value(it), poisoned: false },
        Err(error) => Saw::Value { value: value(error.get_ref()), poisoned: true },
    }
}
