//! Code shared by several experiments.

pub mod case;
pub(crate) mod children;
pub(crate) mod complaint;
pub(crate) mod conductor;
pub(crate) mod control;
pub(crate) mod driver;
pub(crate) mod epoll;
pub(crate) mod exchange;
pub mod experiment;
pub mod failure;
pub mod figure;
pub(crate) mod files;
pub mod format;
pub(crate) mod free_memory;
pub(crate) mod histogram;
pub mod host;
pub mod order;
pub(crate) mod p3;
pub mod p4;
pub(crate) mod persistent;
pub(crate) mod pmem;
pub mod processes;
pub(crate) mod pthread;
pub(crate) mod random;
pub(crate) mod reach;
pub(crate) mod redis;
pub mod results;
pub(crate) mod shared;
pub(crate) mod thread_limits;
pub(crate) mod transfer;

pub use self::{
    case::{Case, Choice, Effort, Params, Reading, Sample, Unit, Value},
    experiment::{CpuTask, Experiment, List, Measure, Options, Plan, Planned, Rounds},
    failure::{Failure, Skip},
    figure::{
        Bar, BarChart, BarGroup, Cell, Chart, Column, Curve, CurveLine, DataTable, Drawing, Family,
        Mark, Part, RatioChart, RatioRow, Section,
    },
    host::Host,
    order::Order,
    results::{Missing, Point, Points, Results, Spread, distinct},
};
pub(crate) use self::{
    children::{Fork, Processes, again},
    complaint::{Complaint, WrongDatum},
    conductor::Conductor,
    failure::OrFailure,
    histogram::{Histogram, Latencies},
    persistent::Memory,
    random::SplitMix64,
    reach::{Baseline, Reach},
    shared::{Shared, Zeroed},
};
