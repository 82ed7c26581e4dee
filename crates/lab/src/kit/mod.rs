//! What several experiments use.

pub(crate) mod children;
pub(crate) mod complaint;
pub(crate) mod conductor;
pub(crate) mod control;
pub(crate) mod driver;
pub mod experiment;
pub mod failure;
pub(crate) mod files;
pub mod format;
pub(crate) mod histogram;
pub mod host;
pub(crate) mod persistent;
pub(crate) mod pmem;
pub mod processes;
pub(crate) mod pthread;
pub(crate) mod random;
pub mod results;
pub(crate) mod shared;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod thread_limits;

pub use self::{
    experiment::{
        Case, CpuTask, Effort, Experiment, List, Options, Params, Planned, Reading, Rounds, Sample,
        Unit, Value,
    },
    failure::{Failure, Skip},
};
