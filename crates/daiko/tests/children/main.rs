//! Programs with a fault, a limit, few CPUs, a control group, a real-time policy, a storm of
//! signals or a variable in their environment, which mostly run in child processes.

mod affinity;
mod control_groups;
mod crash;
mod denied;
mod dump;
mod exhaustion;
mod first_faults;
mod fork;
mod pollers;
mod real_time;
mod scarce;
mod signal_storms;
mod stacks;
#[path = "../support/mod.rs"]
mod support;
mod user_wait;
mod valgrind;
