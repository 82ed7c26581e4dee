//! The panic hook that names the fiber.
//!
//! `std` names the thread of a panic, and gives a program no way to name a thread that it has not
//! started. So the first runtime of a process puts a hook before the one that it finds.

use std::io::Write;
use std::panic;
use std::sync::Once;

use crate::worker;

/// Makes panics of fibers name their fiber, after the message of the hook that is there now. A hook
/// that the program sets later replaces this one.
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // It can only be changed by a thread that does not panic.
        if std::thread::panicking() {
            return;
        }
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            before(panic);
            name_fiber();
        }));
    });
}

/// Writes a line that names the calling fiber, if a fiber calls.
fn name_fiber() {
    let Some((worker, fiber)) = worker::try_caller() else { return };
    let (worker, place) = (worker.index, fiber.spawned_at.get());
    let line = match fiber.name() {
        Some(name) => format!("in fiber '{name}' on worker {worker}, spawned at {place}\n"),
        None => format!("in a fiber without a name on worker {worker}, spawned at {place}\n"),
    };
    // No other place could report a failure.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
