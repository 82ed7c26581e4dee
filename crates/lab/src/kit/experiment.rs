//! What an experiment is: a plan of cases, and how to take one sample of one.

use std::{fmt, path::PathBuf, time::Duration};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::failure::{Failure, Skip};

/// A family of measurements under one name (`ring`, `limits`).
///
/// [`plan`](Self::plan) runs in the process of the user and must be quick.
/// [`sample`](Self::sample) runs in a child process that measures this one
/// case and ends, so it may leave any state of the process behind.
pub trait Experiment: Sync {
    /// The name in the command line and in results.
    fn name(&self) -> &'static str;

    /// One line for `daiko lab list`.
    fn about(&self) -> &'static str;

    /// The methods it compares, in the order of tables.
    fn methods(&self) -> Vec<&'static str>;

    /// Whether what it measures depends on a list that users may give.
    fn takes(&self, list: List) -> bool;

    /// The cases to measure, those that cannot be included with their reason.
    fn plan(&self, options: &Options) -> Vec<Planned>;

    /// Measures `case` once.
    ///
    /// # Errors
    /// One line that the user reads, when the case gave no value.
    fn sample(&self, case: &Case, effort: Effort) -> Result<Sample, Failure>;
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
    /// What results call it.
    pub name: String,
    /// What `/bin/sh` runs.
    pub command: String,
}

impl Options {
    /// Whether the user wants `method` measured.
    pub fn wants(&self, method: &str) -> bool {
        self.methods.as_ref().is_none_or(|list| list.iter().any(|name| name == method))
    }
}

/// One combination of method and parameters: one point of the results per
/// reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The experiment's name.
    pub experiment: String,
    /// The method's name.
    pub method: String,
    /// The parameters, in the order of tables.
    pub params: Params,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.experiment, self.method)?;
        for (key, value) in self.params.iter() {
            write!(f, " {key}={value}")?;
        }
        Ok(())
    }
}

/// Named parameters of a case.
///
/// # Examples
/// ```
/// use daiko_lab::kit::Params;
/// let params = Params::new().with("threads", 1000usize).with("order", "shuffled");
/// assert_eq!(params.number("threads"), Some(1000));
/// assert_eq!(params.text("order"), Some("shuffled"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Params(IndexMap<String, Value>);

impl Params {
    /// No parameters.
    pub fn new() -> Self {
        Self::default()
    }

    /// These parameters and `key`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The value of `key`, if it is a number.
    pub fn number(&self, key: &str) -> Option<u64> {
        match self.get(key)? {
            Value::Number(number) => Some(*number),
            Value::Text(_) => None,
        }
    }

    /// The value of `key`, if it is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Value::Number(_) => None,
            Value::Text(text) => Some(text),
        }
    }

    /// All parameters, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A count.
    Number(u64),
    /// A choice.
    Text(String),
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
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

/// How much one sample may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// Rounds to do (laps of the ring, iterations of a loop).
    pub rounds: u64,
    /// After so long a sample gives up and reports the rounds it did.
    pub limit: Duration,
}

/// What one sample measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Rounds really done; fewer than asked for when the limit was reached.
    pub rounds: u64,
    /// How long they took.
    pub elapsed: Duration,
    /// The values.
    pub readings: Vec<Reading>,
}

/// One value of a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// What the value counts.
    pub unit: Unit,
    /// Which part of a distribution (`p50`, `p99`, `p999`, `max`) or what was
    /// counted (`nodes`, `locks`, `throughput`), if the unit does not say it all.
    pub stat: Option<String>,
    /// The value.
    pub value: f64,
}

impl Reading {
    /// A plain value.
    pub fn new(unit: Unit, value: f64) -> Self {
        Self { unit, stat: None, value }
    }

    /// A percentile or maximum of a distribution, or a count of what `stat`
    /// names.
    pub fn stat(unit: Unit, stat: &str, value: f64) -> Self {
        Self { unit, stat: Some(stat.to_owned()), value }
    }
}

/// Units of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Per cent of one CPU.
    #[serde(rename = "cpu%")]
    CpuPercent,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// How many times as fast as a baseline; as long, where `quantity` is `time`.
    #[serde(rename = "ratio")]
    Ratio,
    /// How often something happened.
    #[serde(rename = "count")]
    Count,
    /// How often something happens in a second.
    #[serde(rename = "1/s")]
    PerSecond,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nanoseconds => "ns",
            Self::CpuPercent => "cpu%",
            Self::Bytes => "bytes",
            Self::Ratio => "ratio",
            Self::Count => "count",
            Self::PerSecond => "1/s",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_one_name_in_results_and_tables() {
        use Unit::{Bytes, Count, CpuPercent, Nanoseconds, PerSecond, Ratio};
        for (unit, name) in [
            (Nanoseconds, "ns"),
            (CpuPercent, "cpu%"),
            (Bytes, "bytes"),
            (Ratio, "ratio"),
            (Count, "count"),
            (PerSecond, "1/s"),
        ] {
            assert_eq!(unit.to_string(), name);
            assert_eq!(serde_json::to_value(unit).unwrap(), name);
            assert_eq!(serde_json::from_value::<Unit>(name.into()).unwrap(), unit);
        }
    }
}
