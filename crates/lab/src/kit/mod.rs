//! Code shared by several experiments.

pub(crate) mod argobots;
pub(crate) mod beside;
pub mod case;
pub(crate) mod children;
pub(crate) mod complaint;
pub mod conditions;
pub(crate) mod conductor;
pub(crate) mod control;
pub(crate) mod coroutines;
pub(crate) mod descendants;
pub(crate) mod driver;
pub(crate) mod dropin;
pub(crate) mod epoll;
pub(crate) mod exchange;
pub mod experiment;
pub mod failure;
pub(crate) mod fibers;
pub mod figure;
pub(crate) mod files;
pub mod format;
pub(crate) mod free_memory;
pub(crate) mod histogram;
pub mod host;
pub(crate) mod mpi;
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
pub(crate) mod ring;
pub(crate) mod shared;
pub mod stop;
pub(crate) mod tasks;
pub(crate) mod thread_limits;
pub(crate) mod transfer;

pub use self::case::{Case, Choice, Effort, Params, Reading, Sample, Unit, Value};
pub(crate) use self::children::{Fork, Processes, again};
pub(crate) use self::complaint::{Complaint, WrongDatum};
pub use self::conditions::Conditions;
pub(crate) use self::conductor::Conductor;
pub use self::experiment::{CpuTask, Experiment, List, Measure, Options, Plan, Planned, Rounds};
pub(crate) use self::failure::OrFailure;
pub use self::failure::{Failure, Skip};
pub use self::fibers::ThreadRegister;
pub(crate) use self::fibers::{FiberKind, has_fsgsbase};
pub use self::figure::{
    Bar, BarChart, BarGroup, Cell, Chart, Column, Curve, CurveLine, DataTable, Drawing, Family,
    Mark, Part, RatioChart, RatioRow, Section,
};
pub(crate) use self::histogram::{Histogram, Latencies};
pub use self::host::Host;
pub use self::order::Order;
pub(crate) use self::persistent::Memory;
pub(crate) use self::random::SplitMix64;
pub(crate) use self::reach::{Baseline, Reach};
pub use self::results::{Missing, Point, Points, Results, Spread, distinct};
pub use self::ring::RingOutcome;
pub(crate) use self::shared::{ForkShared, Zeroed};
pub use self::stop::RunStop;
