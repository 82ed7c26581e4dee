//! Output of a run of the lab: `results.json`.

use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::case::{Params, Unit, Value};
use super::conditions::Conditions;
use super::failure::quoted;
use super::host::Host;

/// Version of the format.
pub const SCHEMA: u32 = 3;

/// The contents of `results.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Version of the format: [`SCHEMA`].
    pub schema: u32,
    /// The machine.
    pub host: Host,
    /// Measured points, then published points.
    pub points: Vec<Point>,
    /// Points that were left out.
    pub skipped: Vec<Missing>,
    /// Points that failed.
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
    /// Parameters that distinguish this point from other points of the method. `stat` names the
    /// part of a distribution or the counted operation, `baseline` the reference of a ratio.
    pub params: Params,
    /// Unit of the values.
    pub unit: Unit,
    /// Median of the runs.
    pub median: f64,
    /// Value of the smallest run.
    pub min: f64,
    /// Value of the largest run.
    pub max: f64,
    /// Number of runs; 0 for a published figure.
    pub runs: usize,
    /// The paper that published it; absent for a measured point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The runs, in the order in which they were taken; absent for a published figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<PointSample>,
}

/// The value of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointSample {
    /// The value.
    pub value: f64,
    /// The machine's state during the run.
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// A point without a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// The experiment's name.
    pub experiment: String,
    /// The method's name.
    pub method: String,
    /// The point's parameters.
    pub params: Params,
    /// Reason, in one line.
    pub reason: String,
}

impl Point {
    /// Creates a point for a figure that the paper `source` published.
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
            samples: Vec::new(),
        }
    }

    /// The value with its range.
    pub fn spread(&self) -> Spread {
        let is_disturbed = self.disturbed() > 0;
        Spread { median: self.median, min: self.min, max: self.max, is_disturbed }
    }

    /// Number of runs during which the machine was disturbed.
    pub fn disturbed(&self) -> usize {
        self.samples.iter().filter(|sample| sample.conditions.is_disturbed()).count()
    }
}

/// A value with its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Middle value, or the mean of the two middle values.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// Whether the machine was disturbed during one of the runs.
    pub is_disturbed: bool,
}

impl Spread {
    /// Median and range of `values`; `None` without values.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self { median, min, max, is_disturbed: false })
    }

    /// A single value without a range.
    pub fn exactly(value: f64) -> Self {
        Self { median: value, min: value, max: value, is_disturbed: false }
    }

    /// The sign behind a value during which the machine was disturbed.
    pub fn sign(&self) -> &'static str {
        if self.is_disturbed { " !" } else { "" }
    }

    /// Applies the increasing function `map` to all three values.
    #[must_use]
    pub fn map(self, map: impl Fn(f64) -> f64) -> Self {
        Self { median: map(self.median), min: map(self.min), max: map(self.max), ..self }
    }

    /// Divides this value by `base`; the range pairs the extremes.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        Self {
            median: self.median / base.median,
            min: self.min / base.max,
            max: self.max / base.min,
            is_disturbed: self.is_disturbed || base.is_disturbed,
        }
    }
}

impl Results {
    /// The measured points, without published figures.
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

    /// Number of disturbed runs, and of all runs.
    pub fn disturbed(&self) -> (usize, usize) {
        let count = |of: fn(&Point) -> usize| self.measured().map(of).sum();
        (count(Point::disturbed), count(|point| point.samples.len()))
    }

    /// Reads the contents of a file of results.
    ///
    /// # Errors
    /// Returns one line with the remedy if they are none, or of another version of the format.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let remedy = "name a results.json, or its folder, that daiko lab run wrote";
        let none = |error: serde_json::Error| {
            format!("no results: {}; {remedy}", quoted(&error.to_string()))
        };
        let Version { schema } = serde_json::from_slice(text).map_err(none)?;
        if schema != SCHEMA {
            return Err(format!(
                "version {schema} of the format, not {SCHEMA}; measure again with this command"
            ));
        }
        serde_json::from_slice(text).map_err(none)
    }

    /// Writes the results to `path`, all or nothing.
    ///
    /// # Errors
    /// Fails if the folder of `path` cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        write_whole(path, &text)
    }
}

/// A selection of points in the order of the results, for further filtering.
#[derive(Clone, Debug, Default)]
pub struct Points<'a>(Vec<&'a Point>);

impl<'a> Points<'a> {
    /// The points for which `is` returns true.
    #[must_use]
    pub fn filter(&self, is: impl Fn(&Point) -> bool) -> Self {
        Self(self.iter().filter(|point| is(point)).collect())
    }

    /// The points of a method.
    #[must_use]
    pub fn method(&self, name: &str) -> Self {
        self.filter(|point| point.method == name)
    }

    /// The points in a unit.
    #[must_use]
    pub fn unit(&self, unit: Unit) -> Self {
        self.filter(|point| point.unit == unit)
    }

    /// The points with this value of a parameter.
    #[must_use]
    pub fn with(&self, key: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.filter(|point| point.params.get(key) == Some(&value))
    }

    /// The points without a parameter.
    #[must_use]
    pub fn without(&self, key: &str) -> Self {
        self.filter(|point| point.params.get(key).is_none())
    }

    /// Each point.
    pub fn iter(&self) -> impl Iterator<Item = &'a Point> + Clone + use<'a, '_> {
        self.0.iter().copied()
    }

    /// Whether there are no points.
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

    /// Names of the points' methods, in the order of the run.
    pub fn methods(&self) -> Vec<&'a str> {
        distinct(self.iter().map(|point| point.method.as_str()))
    }

    /// The distinct numbers of a parameter, in the order of the run.
    pub fn numbers(&self, key: &str) -> Vec<u64> {
        distinct(self.iter().filter_map(|point| point.params.number(key)))
    }

    /// The distinct numbers of a parameter, in ascending order.
    pub fn sorted_numbers(&self, key: &str) -> Vec<u64> {
        let mut numbers = self.numbers(key);
        numbers.sort_unstable();
        numbers
    }

    /// The distinct texts of a parameter, in the order of the run.
    pub fn texts(&self, key: &str) -> Vec<&'a str> {
        distinct(self.iter().filter_map(|point| point.params.text(key)))
    }
}

/// Each value once, in the order of first occurrence.
pub fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// Writes `text` to `path` through a file beside it, so that no reader sees an incomplete file.
///
/// # Errors
/// Fails if the folder of `path` cannot be written.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, text)?;
    fs::rename(partial, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_another_version_are_refused_before_they_are_read() {
        for version in [0, SCHEMA - 1, SCHEMA + 1] {
            let told = Results::parse(format!(r#"{{"schema":{version}}}"#).as_bytes()).unwrap_err();
            assert_eq!(
                told,
                format!(
                    "version {version} of the format, not {SCHEMA}; measure again with this command"
                )
            );
        }
    }

    #[test]
    fn what_is_no_results_is_refused_with_the_remedy() {
        let incomplete = format!(r#"{{"schema":{SCHEMA}}}"#);
        for text in ["", "{", "[]", "null", r#"{"schema":-1}"#, r#"{"schema":"3"}"#, &incomplete] {
            let told = Results::parse(text.as_bytes()).unwrap_err();
            assert!(told.starts_with("no results: ") && told.ends_with("lab run wrote"), "{told}");
        }
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        let spread = Spread::of(vec![9.0, 1.0, 2.0, 4.0]).unwrap();
        assert_eq!(spread, Spread { median: 3.0, min: 1.0, max: 9.0, is_disturbed: false });
        assert_eq!(Spread::of(vec![]), None);
    }
}
