//! What a run of the lab leaves behind: `results.json`.

use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::case::{Params, Unit, Value};
use super::host::Host;

/// The version of the format.
pub const SCHEMA: u32 = 1;

/// The contents of `results.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Version of the format: [`SCHEMA`].
    pub schema: u32,
    /// The machine.
    pub host: Host,
    /// What was measured, then what the papers published.
    pub points: Vec<Point>,
    /// What was left out.
    pub skipped: Vec<Missing>,
    /// What went wrong.
    pub failed: Vec<Missing>,
    /// Remarks on single points, one line each.
    pub notes: Vec<String>,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
}

/// One value with its range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The experiment's name.
    pub experiment: String,
    /// The method's name.
    pub method: String,
    /// All that tells this point from others of the method; `stat` names the
    /// part of a distribution or what was counted, `baseline` what a ratio
    /// refers to.
    pub params: Params,
    /// What the values count.
    pub unit: Unit,
    /// The median of the runs.
    pub median: f64,
    /// The smallest run.
    pub min: f64,
    /// The largest run.
    pub max: f64,
    /// How many runs; 0 for a published figure.
    pub runs: usize,
    /// The paper that published it; absent for what was measured here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A point that has no value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// The experiment's name.
    pub experiment: String,
    /// The method's name.
    pub method: String,
    /// The point's parameters.
    pub params: Params,
    /// Why, in one line.
    pub reason: String,
}

impl Point {
    /// A figure that the paper `source` published.
    pub fn published(
        source: &str,
        experiment: &str,
        method: &str,
        params: Params,
        figure: f64,
    ) -> Self {
        Self {
            experiment: experiment.into(),
            method: method.into(),
            params,
            unit: Unit::Ratio,
            median: figure,
            min: figure,
            max: figure,
            runs: 0,
            source: Some(source.into()),
        }
    }

    /// The value with its range.
    pub fn spread(&self) -> Spread {
        Spread { median: self.median, min: self.min, max: self.max }
    }
}

/// A value with its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle value, or the mean of the two middle ones.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Spread {
    /// The median and range of `values`; `None` without values.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self { median, min, max })
    }

    /// One value without a range.
    pub fn exactly(value: f64) -> Self {
        Self { median: value, min: value, max: value }
    }

    /// All three values by the growing function `map`.
    #[must_use]
    pub fn map(self, map: impl Fn(f64) -> f64) -> Self {
        Self { median: map(self.median), min: map(self.min), max: map(self.max) }
    }

    /// This value relative to `base`; the range pairs the extremes.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        Self {
            median: self.median / base.median,
            min: self.min / base.max,
            max: self.max / base.min,
        }
    }
}

impl Results {
    /// What was measured here, published figures left out.
    pub fn measured(&self) -> impl Iterator<Item = &Point> + Clone {
        self.points.iter().filter(|point| point.source.is_none())
    }

    /// The measured points of an experiment.
    pub fn of(&self, experiment: &str) -> Points<'_> {
        Points(self.measured().filter(|point| point.experiment == experiment).collect())
    }

    /// The names of the experiments with points, in the order of the run.
    pub fn experiments(&self) -> Vec<&str> {
        distinct(self.measured().map(|point| point.experiment.as_str()))
    }

    /// Writes them to `path`, all or nothing.
    ///
    /// # Errors
    /// When the folder of `path` cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        write_whole(path, &text)
    }
}

/// Points of results, in their order, to be narrowed down.
#[derive(Clone, Debug, Default)]
pub struct Points<'a>(Vec<&'a Point>);

impl<'a> Points<'a> {
    /// Those for which `is` returns true.
    #[must_use]
    pub fn filter(&self, is: impl Fn(&Point) -> bool) -> Self {
        Self(self.iter().filter(|point| is(point)).collect())
    }

    /// Those of a method.
    #[must_use]
    pub fn method(&self, name: &str) -> Self {
        self.filter(|point| point.method == name)
    }

    /// Those in a unit.
    #[must_use]
    pub fn unit(&self, unit: Unit) -> Self {
        self.filter(|point| point.unit == unit)
    }

    /// Those with that value of a parameter.
    #[must_use]
    pub fn with(&self, key: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.filter(|point| point.params.get(key) == Some(&value))
    }

    /// Those without a parameter.
    #[must_use]
    pub fn without(&self, key: &str) -> Self {
        self.filter(|point| point.params.get(key).is_none())
    }

    /// Each point.
    pub fn iter(&self) -> impl Iterator<Item = &'a Point> + Clone + use<'a, '_> {
        self.0.iter().copied()
    }

    /// Returns true if there is no point.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first point.
    pub fn first(&self) -> Option<&'a Point> {
        self.0.first().copied()
    }

    /// The median of the first point.
    pub fn median(&self) -> Option<f64> {
        Some(self.first()?.median)
    }

    /// The names of their methods, in the order of the run.
    pub fn methods(&self) -> Vec<&'a str> {
        distinct(self.iter().map(|point| point.method.as_str()))
    }

    /// The different numbers that a parameter has, in the order of the run.
    pub fn numbers(&self, key: &str) -> Vec<u64> {
        distinct(self.iter().filter_map(|point| point.params.number(key)))
    }

    /// Those numbers, in their own order.
    pub fn sorted_numbers(&self, key: &str) -> Vec<u64> {
        let mut numbers = self.numbers(key);
        numbers.sort_unstable();
        numbers
    }

    /// The different texts that a parameter has, in the order of the run.
    pub fn texts(&self, key: &str) -> Vec<&'a str> {
        distinct(self.iter().filter_map(|point| point.params.text(key)))
    }
}

/// Each value once, in the order in which they first come.
pub fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// Writes `text` to `path` by a file beside it, so that no reader ever sees half of it.
///
/// # Errors
/// When the folder of `path` cannot be written.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, text)?;
    fs::rename(partial, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        let spread = Spread::of(vec![9.0, 1.0, 2.0, 4.0]).unwrap();
        assert_eq!(spread, Spread { median: 3.0, min: 1.0, max: 9.0 });
        assert_eq!(Spread::of(vec![]), None);
    }
}
