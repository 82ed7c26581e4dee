//! Programs with a fault, a limit, a storm of signals or a variable in their environment, which run
//! in child processes.

mod crash;
mod exhaustion;
mod first_faults;
mod signal_storms;
mod stacks;
#[path = "../support/mod.rs"]
mod support;
mod valgrind;
