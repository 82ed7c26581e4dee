//! The experiments of the lab, by name.

pub mod costs;
pub mod follow;
pub mod follow_sim;
pub mod governor;
pub mod ipc;
pub mod limits;
pub mod memory;
pub mod ring;
pub mod serve;
pub mod smt;
pub mod smt_classes;
pub mod smt_model;
pub mod tsp;

use self::{
    costs::Costs, follow::Follow, follow_sim::FollowSim, governor::Governor, ipc::Ipc,
    limits::Limits, memory::Memory, ring::experiment::Ring, serve::Serve, smt::Smt,
    smt_classes::SmtClasses, smt_model::SmtModel, tsp::Tsp,
};
use crate::kit::Experiment;

/// All experiments, in the order of `daiko lab list`.
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![
        Box::new(Limits),
        Box::new(Ring::default()),
        Box::new(Costs),
        Box::new(Memory),
        Box::new(Governor),
        Box::new(Tsp),
        Box::new(Ipc),
        Box::new(Serve),
        Box::new(FollowSim),
        Box::new(Follow),
        Box::new(Smt),
        Box::new(SmtClasses),
        Box::new(SmtModel),
    ]
}

/// The experiment of that name.
pub fn find(name: &str) -> Option<Box<dyn Experiment>> {
    all().into_iter().find(|experiment| experiment.name() == name)
}
