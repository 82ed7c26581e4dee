//! The experiments of the lab, each with a folder and a row.

pub mod apps;
pub mod channels;
pub mod costs;
pub mod files;
pub mod follow;
pub mod follow_sim;
pub mod fork_join;
pub mod governor;
pub mod ipc;
pub mod legend;
pub mod limits;
pub mod many;
pub mod memdb;
pub mod memory;
pub mod mpi;
pub mod ring;
pub mod scarce;
pub mod serve;
pub mod smt;
pub mod smt_classes;
pub mod smt_model;
pub mod smt_programs;
pub mod tsp;

use crate::kit::Experiment;

/// All experiments, in the order of `daiko lab list` and of reports.
pub const ALL: [Experiment; 22] = [
    limits::EXPERIMENT,
    ring::EXPERIMENT,
    scarce::EXPERIMENT,
    costs::EXPERIMENT,
    channels::EXPERIMENT,
    fork_join::EXPERIMENT,
    many::EXPERIMENT,
    memory::EXPERIMENT,
    governor::EXPERIMENT,
    tsp::EXPERIMENT,
    ipc::EXPERIMENT,
    mpi::EXPERIMENT,
    files::EXPERIMENT,
    serve::EXPERIMENT,
    memdb::EXPERIMENT,
    apps::EXPERIMENT,
    follow_sim::EXPERIMENT,
    follow::EXPERIMENT,
    smt::EXPERIMENT,
    smt_classes::EXPERIMENT,
    smt_programs::EXPERIMENT,
    smt_model::EXPERIMENT,
];

/// Returns the experiment of that name.
pub fn find(name: &str) -> Option<Experiment> {
    ALL.into_iter().find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests;
