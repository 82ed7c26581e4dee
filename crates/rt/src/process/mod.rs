//! Workers that are processes. README has the protocol.

pub mod call;
pub(crate) mod canary;
pub(crate) mod crew;
mod error;
pub mod estate;
pub(crate) mod heap;
mod life;
mod segment;
mod shared;
mod zygote;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fmt, io};

use daiko_context::stack::StackError;
use daiko_sys::{signal, thread};

pub use self::call::{
    Call, assert_in_call, call, in_call_slow, notes_calls, own_code, unwinds, with_course,
};
pub use self::canary::watch_static;
pub use self::error::ProcessError;
pub use self::estate::{Estate, Item, ItemKind};
pub use self::heap::{HeapStats, SharedHeap, is_shared};
pub use self::shared::Static;
use crate::deadlock;
use crate::runtime::RuntimeBuilder;

/// Whether a runtime of this program has processes as workers; in all of them.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether a runtime of this program has processes as workers.
#[inline]
pub fn is_active() -> bool {
    // Relaxed: set while there is one thread.
    ACTIVE.load(Ordering::Relaxed)
}

/// Keeps threads out of what would have others write into their frames.
///
/// # Panics
///
/// If workers are processes: `what` names the call of somebody who is no fiber.
pub(crate) fn assert_frame_is_shared(what: &str) {
    assert!(
        !is_active(),
        "daiko: a thread cannot wait in {what} where workers are processes; let a fiber, by Runtime::run"
    );
}

/// The program's being one whose workers are processes; until dropped, by the process that has built the runtime.
#[derive(Debug)]
pub(crate) struct Occupied(());

impl Drop for Occupied {
    fn drop(&mut self) {
        ACTIVE.store(false, Ordering::Relaxed);
    }
}

/// Asks whether a runtime as `builder` says can be; `None`: it can, and its workers are threads.
pub(crate) fn occupy(builder: &RuntimeBuilder) -> Result<Option<Occupied>, ProcessError> {
    if is_active() {
        return Err(ProcessError::Nested);
    }
    if !builder.has_processes() {
        return Ok(None);
    }
    let count = threads().map_err(ProcessError::Start)?;
    if count != 1 {
        return Err(ProcessError::Threads { count });
    }
    if !is_shared(&*Box::new(0_u8)) {
        return Err(ProcessError::NoSharedHeap);
    }
    if let Some(name) = builder.not_for_processes() {
        return Err(ProcessError::Option { name });
    }
    deadlock::track_no_more();
    ACTIVE.store(true, Ordering::Relaxed);
    Ok(Some(Occupied(())))
}

/// How many threads there are. One that was joined may be counted for a moment: it is waited for.
fn threads() -> io::Result<usize> {
    const LOOKS: u32 = 100;
    for _ in 1..LOOKS {
        if thread::all()?.len() == 1 {
            return Ok(1);
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    Ok(thread::all()?.len())
}

/// Ends a worker process that cannot guard the stack of a fiber which has come to it.
#[cold]
pub(crate) fn no_guards(error: StackError) -> ! {
    end_with(format_args!(
        "daiko: a worker process cannot guard the stacks of its fibers: {error}\n"
    ))
}

/// Ends a worker process that has no stack on which a lost fiber could settle what it had.
#[cold]
pub(crate) fn no_stack(error: StackError) -> ! {
    end_with(format_args!("daiko: there is no stack to end a fiber on that was lost: {error}\n"))
}

fn end_with(text: fmt::Arguments<'_>) -> ! {
    signal::write_stderr(&[text.to_string().as_bytes()]);
    signal::abort()
}
