//! Experiments: rows of a table that say what there is to measure, and how.

use std::path::PathBuf;

use super::case::{Case, Effort, Params, Sample};
use super::failure::{Failure, Skip};
use super::figure::Section;
use super::results::{Point, Results};

/// A family of measurements under one name (`ring`, `limits`).
///
/// All but [`measure`](Self::measure) runs in the process of the user and must be quick. What that
/// returns runs in a child process that measures one case and ends, so it may leave any state of
/// the process behind.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The name in the command line and in results.
    pub name: &'static str,
    /// One line for `daiko lab list`.
    pub about: &'static str,
    /// Names the methods, in the order of tables.
    pub methods: fn() -> Vec<&'static str>,
    /// Parameters that make columns in tables: the first of them that a point has.
    pub sizes: &'static [&'static str],
    /// Lists of a user that its cases depend on.
    pub lists: &'static [List],
    /// Adds the cases to a plan.
    pub cases: fn(&mut Plan<'_>),
    /// Finds how to measure a method with these parameters, if there is such a case.
    pub measure: fn(&str, &Params) -> Option<Measure>,
    /// Figures that papers published, for the results to stand beside the measured ones.
    pub published: fn() -> Vec<Point>,
    /// Sections of the report.
    pub sections: fn(&Results) -> Vec<Section>,
}

/// Takes one sample. An error is one line that the user reads: the case gave no value.
pub type Measure = Box<dyn FnOnce(Effort) -> Result<Sample, Failure>>;

impl Experiment {
    /// Returns true if what it measures depends on `list`.
    pub fn takes(&self, list: List) -> bool {
        self.lists.contains(&list)
    }

    /// Plans the cases, those that cannot be measured here included with their reason.
    pub fn plan(&self, options: &Options) -> Vec<Planned> {
        let mut plan = Plan { experiment: self.name, options, cases: Vec::new() };
        (self.cases)(&mut plan);
        plan.cases
    }

    /// Measures `case` once.
    ///
    /// # Errors
    /// One line that the user reads, if the case gave no value.
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
}

/// What the user asked for on the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Numbers of threads, in place of the experiment's own list.
    pub threads: Option<Vec<usize>>,
    /// Only these methods.
    pub methods: Option<Vec<String>>,
    /// Numbers of workers, in place of the experiment's own list.
    pub workers: Option<Vec<usize>>,
    /// Programs that compute, in place of the experiment's own.
    pub cpu_tasks: Option<Vec<CpuTask>>,
    /// A folder of persistent memory, in place of one that is emulated.
    pub pmem: Option<PathBuf>,
    /// Shorter runs and fewer cases.
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
    /// What the user asked for.
    pub options: &'a Options,
    cases: Vec<Planned>,
}

impl Plan<'_> {
    /// Returns true if the user wants `method` measured.
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
    /// What to measure.
    pub case: Case,
    /// How many rounds a sample takes, or why there is none.
    pub rounds: Result<Rounds, Skip>,
}

/// How the number of rounds of a sample is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// A first sample of so many rounds decides how many fill the run length.
    Calibrated {
        /// Rounds of the first sample.
        first: u64,
    },
    /// Always so many: the case has a length of its own.
    Fixed(u64),
}
