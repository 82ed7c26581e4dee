//! The mode of the program: workers are threads, or processes.

use std::fmt;

use daiko_context::stack::StackError;
use daiko_sys::signal;

use crate::notes;

/// Returns true if a runtime of this program has processes as workers.
#[inline]
pub fn is_active() -> bool {
    notes::has(notes::SECTIONS)
}

/// Keeps threads out of operations by which other processes would write into their frames.
///
/// # Panics
///
/// If workers are processes: the panic names the call, made by a thread that is no fiber.
pub(crate) fn assert_frame_is_shared(operation: &str) {
    assert!(
        !is_active(),
        "daiko: a thread cannot wait in {operation} where workers are processes; let a fiber, by Runtime::run"
    );
}

/// Ends a worker process that cannot guard the stack of a fiber which has come to it.
#[cold]
pub(crate) fn no_guards(error: StackError) -> ! {
    end_with(format_args!(
        "daiko: a worker process cannot guard the stacks of its fibers: {error}\n"
    ))
}

/// Ends a worker process that has no stack on which a lost fiber could recover its robust list.
#[cold]
pub(crate) fn no_stack(error: impl fmt::Display) -> ! {
    end_with(format_args!("daiko: there is no stack to end a fiber on that was lost: {error}\n"))
}

fn end_with(text: fmt::Arguments<'_>) -> ! {
    signal::write_stderr(&[text.to_string().as_bytes()]);
    signal::abort()
}
