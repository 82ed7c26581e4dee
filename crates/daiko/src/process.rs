//! Workers that are processes: a fiber program survives the death of one of them, and isolates
//! their faults.
//!
//! [`RuntimeBuilder::process_workers`](crate::RuntimeBuilder::process_workers) forks the workers
//! from the calling process. Fibers, their stacks and their shared objects lie in memory that all
//! processes see at the same addresses, so that a fiber which was suspended in one process goes on
//! in another. A program needs three things for it:
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
//! # Differences from threads
//!
//! - The process that builds the runtime runs no fibers. Its threads may
//!   [`run`](crate::Runtime::run) and [`spawn`](crate::Runtime::spawn), join, unpark and cancel.
//!   They panic in calls that need their frame (a wait for an object of [`sync`](crate::sync),
//!   [`Runtime::scope`](crate::Runtime::scope)), as no other process sees it.
//! - There is no other runtime meanwhile, not even the [default one](crate::default_runtime()).
//! - Descriptors are common to all processes, whichever opens them; the working directory,
//!   environment, signal handlers and locks of files are each process's own.
//! - The output of `println!` in a fiber goes through a buffer of its process: lines of several
//!   processes appear in no certain order. A program that has printed before it builds the runtime
//!   shares that buffer: its fibers use `eprintln!`.
//! - There are no spare workers: other workers take the fibers that a [stuck](crate::Stuck) worker
//!   could run. Deadlocks are not looked for.
//! - A worker's process that is killed is replaced by a process that continues at the same point:
//!   in the middle of any action of the runtime or of a call of this library. In user code, the
//!   running fiber is lost instead, as [`join`](crate::JoinHandle::join) says, or begins anew, if
//!   it was spawned by [`Builder::spawn_at_least_once`](crate::Builder::spawn_at_least_once). The
//!   objects that it held or had lent are recovered: its locks are poisoned and freed, its permits
//!   given back, the fibers of its scopes cancelled and waited for. Its destructors do not run. So
//!   the objects that it owned are never freed, and a waiter for the drop of its end of a channel
//!   keeps waiting.
//! - That needs the kernel's permission to trace children (`ptrace`). If it is refused, or
//!   [declined](crate::RuntimeBuilder::trace_workers), a worker that is killed in the runtime ends
//!   the program, after one line on standard error that gives the reason.
//! - A worker that exits, as by [`std::process::exit`] in a fiber, also ends the program, with the
//!   same exit code. Exit handlers (`atexit`) run in the worker's process alone.
//! - Calls that [block](crate::blocking()) and had begun there are lost with their fibers. If such
//!   a call was using this library at that moment, or held an object of it, the program ends.
//! - At the end no process is left behind: a process that resists is killed.

pub use daiko_rt::process::{
    HeapStats, ProcessError, SharedHeap, Static, SumOfBits, is_shared, watch_static,
};
