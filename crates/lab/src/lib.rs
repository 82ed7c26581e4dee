//! Experiments that measure Daiko beside what a user would pick instead.
//!
//! An [`Experiment`](experiment::Experiment) plans cases; the runner measures
//! every case several times, each time in a child process of its own, and
//! interleaves the methods so that drift of the machine hits all alike.

pub mod conclusion;
pub mod costs;
mod driver;
pub mod experiment;
pub mod failure;
pub mod follow;
pub mod follow_sim;
pub mod format;
pub mod governor;
pub mod host;
pub mod ipc;
pub mod limits;
pub mod memory;
pub mod processes;
mod pthread;
pub mod published;
mod random;
pub mod registry;
pub mod report;
pub mod results;
pub mod ring;
pub mod runner;
pub mod serve;
pub mod smt;
pub mod smt_classes;
pub mod smt_model;
pub mod table;
#[cfg(test)]
mod testing;
pub mod tsp;

pub use failure::{Failure, Skip};
