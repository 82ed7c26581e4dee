//! The programs, against whatever library the module around this one names.

use super as library;

pub(crate) mod crowd;
pub(crate) mod flow;
pub(crate) mod lock;
pub(crate) mod permits;

use std::panic::{self, AssertUnwindSafe};

/// Panics while it holds `held`, and catches that; the hook is not called.
fn panic_with<T>(held: T) {
    let panics = AssertUnwindSafe(|| {
        let _held = held;
        panic::resume_unwind(Box::new(()))
    });
    let _: Box<_> = panic::catch_unwind::<_, ()>(panics).unwrap_err();
}
