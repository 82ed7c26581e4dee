//! Experiments: rows of a table that state the points to measure, and the way to measure them.

use std::path::PathBuf;
use std::time::Duration;

use super::case::{Case, Effort, Params, Sample};
use super::failure::{Failure, Skip};
use super::figure::Section;
use super::results::{Point, Results};

/// A family of measurements under one name (`ring`, `limits`).
///
/// All functions except [`measure`](Self::measure) run in the process of the user and must be
/// quick. The function that `measure` returns runs in a child process that measures one case and
/// ends, so it may leave any state of the process behind.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Name in the command line and in results.
    pub name: &'static str,
    /// One line for `daiko lab list`.
    pub about: &'static str,
    /// Returns the names of the methods, in the order of tables.
    pub methods: fn() -> Vec<&'static str>,
    /// Parameters for the columns of tables. The first one that a point has is used.
    pub sizes: &'static [&'static str],
    /// User-supplied lists that its cases depend on.
    pub lists: &'static [List],
    /// Adds the cases to a plan.
    pub cases: fn(&mut Plan<'_>),
    /// Returns the function that measures a method with these parameters, if there is such a case.
    pub measure: fn(&str, &Params) -> Option<Measure>,
    /// Returns published figures, to be shown beside measured figures.
    pub published: fn() -> Vec<Point>,
    /// Sections of the report.
    pub sections: fn(&Results) -> Vec<Section>,
}

/// Returns true if the method measures Daiko.
pub(crate) fn is_ours(method: &str) -> bool {
    ["daiko", "dropin", "echo-daiko"].iter().any(|name| method.starts_with(name)) || method == "kv"
}

/// A function that takes one sample. An error means that the case gave no value; it is one line for
/// the user.
pub type Measure = Box<dyn FnOnce(Effort) -> Result<Sample, Failure>>;

impl Experiment {
    /// Whether the measurements depend on `list`.
    pub fn takes(&self, list: List) -> bool {
        self.lists.contains(&list)
    }

    /// Plans the cases, those of Daiko first: a run that is interrupted has them. Cases that cannot
    /// be measured here are included with their reason.
    pub fn plan(&self, options: &Options) -> Vec<Planned> {
        let mut plan = Plan { experiment: self.name, options, cases: Vec::new() };
        (self.cases)(&mut plan);
        plan.cases.sort_by_key(|planned| !is_ours(&planned.case.method));
        plan.cases
    }

    /// Measures `case` once.
    ///
    /// # Errors
    /// Returns one line for the user if the case gave no value.
    pub fn sample(&self, case: &Case, effort: Effort) -> Result<Sample, Failure> {
        match (self.measure)(&case.method, &case.params) {
            Some(measure) => measure(effort),
            None => Err(Failure::Broken(format!("{case}: there is no such point"))),
        }
    }
}

/// A list that a user may give in place of an experiment's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// [`Options::threads`].
    Threads,
    /// [`Options::workers`].
    Workers,
    /// [`Options::cpu_tasks`].
    CpuTasks,
    /// [`Options::pmem`].
    Pmem,
    /// [`Options::apps`].
    Apps,
}

/// Options of the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Numbers of threads, in place of the experiment's own list.
    pub threads: Option<Vec<usize>>,
    /// Methods to be measured; `None` for all.
    pub methods: Option<Vec<String>>,
    /// Numbers of workers, in place of the experiment's own list.
    pub workers: Option<Vec<usize>>,
    /// Programs that compute, in place of the experiment's own.
    pub cpu_tasks: Option<Vec<CpuTask>>,
    /// Folder of persistent memory, in place of an emulated one.
    pub pmem: Option<PathBuf>,
    /// Beginnings of the names of applications to be measured; `None` for all.
    pub apps: Option<Vec<String>>,
    /// Whether to run shorter and fewer cases.
    pub quick: bool,
}

/// A program that a user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuTask {
    /// Its name in results.
    pub name: String,
    /// The command line that `/bin/sh` runs.
    pub command: String,
}

/// Cases of one experiment, while they are planned.
#[derive(Debug)]
pub struct Plan<'a> {
    experiment: &'static str,
    /// Options of the command line.
    pub options: &'a Options,
    cases: Vec<Planned>,
}

impl Plan<'_> {
    /// Whether the user wants `method` measured.
    pub fn wants(&self, method: &str) -> bool {
        self.options.methods.as_ref().is_none_or(|list| list.iter().any(|name| name == method))
    }

    /// Adds a case if the user wants its method measured.
    pub fn add(&mut self, method: &str, params: Params, rounds: Result<Rounds, Skip>) {
        if self.wants(method) {
            let (experiment, method) = (self.experiment.into(), method.into());
            self.cases.push(Planned { case: Case { experiment, method, params }, rounds });
        }
    }
}

/// A case of a plan.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The case to measure.
    pub case: Case,
    /// Number of rounds of a sample, or the reason to skip it.
    pub rounds: Result<Rounds, Skip>,
}

/// The way to find the number of rounds of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// A first sample decides how many rounds fill the run length.
    Calibrated {
        /// Rounds of the first sample.
        first: u64,
    },
    /// A fixed number: the case has a length of its own.
    Fixed(u64),
    /// A fixed number, with a limit of the sample in place of the schedule's.
    Within {
        /// Rounds of every sample.
        rounds: u64,
        /// Time after which a sample ends.
        limit: Duration,
    },
}
