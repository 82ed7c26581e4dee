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
//!   standard error that says why; so does a worker that exits.
//! - Calls that [block](crate::blocking()) and had begun there are lost with their fibers; if one was using this library at
//!   that moment, or had something of it, the program ends.
//! - At the end nobody is left behind: a process that resists is killed.

pub use daiko_rt::process::{HeapStats, ProcessError, SharedHeap, Static, is_shared, watch_static};
