//! Workers that are processes: a fiber program that survives what kills one of them, and whose faults stay apart.
//!
//! [`RuntimeBuilder::process_workers`](crate::RuntimeBuilder::process_workers) forks the workers from the process
//! that calls it. Fibers, their stacks and what they share lie in memory that all see at the same addresses, so that
//! a fiber which was suspended in one process goes on in another. A program needs three things for it:
//!
//! ```standalone_crate
//! use daiko::sync::Mutex;
//! use std::sync::Arc;
//!
//! // Its objects lie where all processes see them.
//! #[global_allocator]
//! static HEAP: daiko::process::SharedHeap = daiko::process::SharedHeap::new();
//!
//! fn main() {
//!     // It keeps to the contract of `process_workers`, and builds the runtime first thing.
//!     let builder = unsafe { daiko::Runtime::builder().process_workers(2) };
//!     let runtime = builder.build().unwrap();
//!     let sum = runtime.run(|| {
//!         let sum = Arc::new(Mutex::new(0));
//!         let adders: Vec<_> = (1..=10)
//!             .map(|number| {
//!                 let sum = sum.clone();
//!                 daiko::spawn(move || *sum.lock().unwrap() += number)
//!             })
//!             .collect();
//!         adders.into_iter().for_each(|adder| adder.join().unwrap());
//!         *sum.lock().unwrap()
//!     });
//!     assert_eq!(sum, 55);
//! }
//! ```
//!
//! # What differs from threads
//!
//! - The process that builds the runtime runs no fibers. Its threads may [`run`](crate::Runtime::run) and
//!   [`spawn`](crate::Runtime::spawn), join, unpark and cancel; in what needs their frame (to wait for an object of
//!   [`sync`](crate::sync), [`Runtime::scope`](crate::Runtime::scope)) they panic, as no other process sees it.
//! - There is no other runtime meanwhile, not even the [default one](crate::default_runtime()).
//! - Descriptors are common to all, whoever opens them; the working directory, environment, signal handlers and
//!   locks of files are each process's own.
//! - What a fiber prints by `println!` goes through a buffer of its process: lines of several appear in no certain
//!   order. A program that has printed before it builds the runtime shares that buffer: its fibers use `eprintln!`.
//! - There are no spares: what a [stuck](crate::Stuck) worker could run others take. Deadlocks are not looked for.
//! - A worker's process that is killed is replaced, by one that goes on where it was: in the middle of whatever the runtime
//!   or a call of this library was doing. Not so in a fiber's own code: that fiber is lost, as
//!   [`join`](crate::JoinHandle::join) says, or begins anew, if it was spawned by
//!   [`Builder::spawn_at_least_once`](crate::Builder::spawn_at_least_once). What it held or had lent is settled: its locks are
//!   poisoned and freed, its permits given back, the fibers of its scopes cancelled and waited for. Its destructors do not
//!   run, so that what it owned is never freed, and who waits for its end of a channel to be dropped waits on.
//! - That needs the kernel's leave to trace children (`ptrace`). Where it is refused, or
//!   [declined](crate::RuntimeBuilder::trace_workers), a worker that is killed in the runtime takes the program along, after one line on
//!   standard error that says why.
//! - So does a worker that exits, as by [`std::process::exit`] in a fiber: the program ends with the
//!   same exit code. Exit handlers (`atexit`) run in the worker's process alone.
//! - Calls that [block](crate::blocking()) and had begun there are lost with their fibers; if one was using this library at
//!   that moment, or had something of it, the program ends.
//! - At the end nobody is left behind: a process that resists is killed.

mod call;
pub(crate) mod canary;
pub(crate) mod crew;
mod error;
pub(crate) mod estate;
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

pub(crate) use self::call::{
    Call, assert_in_call, call, in_call, in_call_slow, notes_calls, own_code, unwinds,
};
pub use self::canary::{Watched, watch_static};
pub use self::error::ProcessError;
pub(crate) use self::estate::{Estate, Item};
pub use self::heap::{HeapStats, SharedHeap, is_shared};
pub use self::shared::Static;
use crate::deadlock;
use crate::runtime::RuntimeBuilder;

/// Whether a runtime of this program has processes as workers; in all of them.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether a runtime of this program has processes as workers.
#[inline]
pub(crate) fn is_active() -> bool {
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
