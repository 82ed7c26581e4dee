//! Cases and their samples.

use std::fmt;
use std::time::Duration;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// One combination of method and parameters: one point of the results per reading.
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
///
/// ```
/// use daiko_lab::kit::Params;
///
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

    /// Adds `key`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    /// Adds `key` if it has a value.
    #[must_use]
    pub fn with_some(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
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

    /// The value of `key`, if it is a number that fits into a `usize`.
    pub fn size(&self, key: &str) -> Option<usize> {
        self.number(key)?.try_into().ok()
    }

    /// The value of `key`, if it names one of the choices.
    pub fn choice<C: Choice>(&self, key: &str) -> Option<C> {
        C::from_name(self.text(key)?)
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

impl<C: Choice> From<C> for Value {
    fn from(choice: C) -> Self {
        choice.name().into()
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

/// A fixed set of choices, which parameters refer to by name.
pub trait Choice: Copy + PartialEq + 'static {
    /// All choices with their names, in the order of tables.
    const NAMES: &'static [(Self, &'static str)];

    /// The name of this choice.
    fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(choice, _)| *choice == self);
        named.expect("every choice has a name").1
    }

    /// The choice with this `name`.
    fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(choice, _)| *choice)
    }

    /// All choices.
    fn all() -> impl Iterator<Item = Self> + Clone {
        Self::NAMES.iter().map(|(choice, _)| *choice)
    }
}

/// Limits of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    /// Number of rounds (laps of the ring, iterations of a loop).
    pub rounds: u64,
    /// Time after which a sample ends and reports the rounds done.
    pub limit: Duration,
}

impl Effort {
    /// Length of each half of a sample that counts rounds in milliseconds.
    pub fn window(&self) -> Duration {
        Duration::from_millis(self.rounds).min(self.limit / 2)
    }
}

/// Measurement of one sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Completed rounds; fewer than requested if the limit was reached.
    pub rounds: u64,
    /// Time of these rounds.
    pub elapsed: Duration,
    /// The values.
    pub readings: Vec<Reading>,
}

impl Sample {
    /// A sample with a single value: the time of an operation that happened `count` times in all
    /// rounds.
    pub fn timed(rounds: u64, count: u64, elapsed: Duration) -> Self {
        let each = elapsed.as_nanos() as f64 / count as f64;
        Self { rounds, elapsed, readings: vec![Reading::new(Unit::Nanoseconds, each)] }
    }
}

/// One value of a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Unit of the value.
    pub unit: Unit,
    /// Part of a distribution (`p50`, `p99`, `p999`, `max`) or counted operation (`nodes`, `locks`,
    /// `throughput`), if the unit does not say it all.
    pub stat: Option<String>,
    /// The value.
    pub value: f64,
}

impl Reading {
    /// A plain value.
    pub fn new(unit: Unit, value: f64) -> Self {
        Self { unit, stat: None, value }
    }

    /// A percentile or maximum of a distribution, or a count of the operation `stat`.
    pub fn stat(unit: Unit, stat: &str, value: f64) -> Self {
        Self { unit, stat: Some(stat.to_owned()), value }
    }

    /// A count made in `elapsed_ns`, per second.
    pub fn rate(stat: &str, count: f64, elapsed_ns: u64) -> Self {
        Self::stat(Unit::PerSecond, stat, count * 1e9 / elapsed_ns.max(1) as f64)
    }

    /// CPU time relative to the time in which it was used.
    pub fn percent(stat: &str, cpu_ns: u64, elapsed_ns: u64) -> Self {
        let percent = 100.0 * cpu_ns as f64 / elapsed_ns.max(1) as f64;
        Self::stat(Unit::CpuPercent, stat, percent)
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
    /// Speed relative to a baseline; time relative to it if `quantity` is `time`.
    #[serde(rename = "ratio")]
    Ratio,
    /// Number of occurrences.
    #[serde(rename = "count")]
    Count,
    /// Occurrences per second.
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
