//! Experiments that measure Daiko beside its alternatives.
//!
//! An [`Experiment`](kit::Experiment) plans cases. The runner measures every case several times,
//! each time in a child process of its own, and interleaves the methods, so that drift of the
//! machine affects all of them alike.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("daiko-lab measures by assembly of x86-64: it builds for such processors only");

pub mod experiments;
pub mod kit;
pub mod report;
pub mod runner;
#[cfg(test)]
mod testing;

pub use kit::{Failure, Skip};
