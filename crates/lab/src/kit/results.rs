//! What a run of the lab leaves behind: `results.json`.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    kit::{
        experiment::{Case, Params, Unit},
        format,
        host::Host,
    },
    published,
    runner::{Measured, Schedule, Series},
};

/// The version of the format.
pub const SCHEMA: u32 = 1;

/// A run of this many times its intended length, with so few rounds, is told to
/// the reader.
const SLOW: u32 = 4;
const FEW_ROUNDS: u64 = 10;

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

impl Results {
    /// The results of `measured` on `host`, published figures beside them.
    pub fn new(host: Host, measured: &Measured, schedule: Schedule) -> Self {
        let mut points: Vec<Point> = measured.series.iter().flat_map(points_of).collect();
        let experiments: Vec<_> = points.iter().map(|point| point.experiment.clone()).collect();
        let published = published::points().into_iter();
        points.extend(published.filter(|point| experiments.contains(&point.experiment)));
        let missing = |case: &Case, reason: String| Missing {
            experiment: case.experiment.clone(),
            method: case.method.clone(),
            params: case.params.clone(),
            reason,
        };
        Self {
            schema: SCHEMA,
            host,
            points,
            skipped: measured
                .skipped
                .iter()
                .map(|(case, why)| missing(case, why.to_string()))
                .collect(),
            failed: measured
                .failed
                .iter()
                .map(|(case, why)| missing(case, why.to_string()))
                .collect(),
            notes: measured
                .series
                .iter()
                .filter_map(|series| slow_note(series, schedule))
                .collect(),
            interrupted: measured.interrupted,
        }
    }

    /// What was measured here, published figures left out.
    pub fn measured(&self) -> impl Iterator<Item = &Point> + Clone {
        self.points.iter().filter(|point| point.source.is_none())
    }

    /// The names of the experiments with points, in the order of the run.
    pub fn experiments(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for point in self.measured() {
            if !names.contains(&point.experiment.as_str()) {
                names.push(&point.experiment);
            }
        }
        names
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

/// Writes `text` to `path` by a file beside it, so that nobody ever sees half.
///
/// # Errors
/// When the folder of `path` cannot be written.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, text)?;
    fs::rename(partial, path)
}

fn points_of(series: &Series) -> Vec<Point> {
    let point = |(unit, stat, summary): (Unit, Option<String>, crate::runner::Summary)| {
        let params = series.case.params.clone();
        Point {
            experiment: series.case.experiment.clone(),
            method: series.case.method.clone(),
            params: match stat {
                Some(stat) => params.with("stat", stat.as_str()),
                None => params,
            },
            unit,
            median: summary.median,
            min: summary.min,
            max: summary.max,
            runs: summary.runs,
            source: None,
        }
    };
    series.summaries().into_iter().map(point).collect()
}

/// What to say of a case whose rounds are so long that a run has only few.
fn slow_note(series: &Series, schedule: Schedule) -> Option<String> {
    let samples = &series.samples;
    let most = samples.iter().map(|sample| sample.rounds).max()?;
    let slow = samples.iter().any(|sample| sample.elapsed > schedule.target * SLOW);
    if most > FEW_ROUNDS || !slow {
        return None;
    }
    // In floating point: what a child process says may be anything.
    let rounds: f64 = samples.iter().map(|sample| sample.rounds as f64).sum();
    let seconds: f64 = samples.iter().map(|sample| sample.elapsed.as_secs_f64()).sum();
    let each = format::seconds(seconds / rounds.max(1.0));
    let rounds = if most == 1 { "1 round".into() } else { format!("{most} rounds") };
    Some(format!("{}: at most {rounds} a run, of {each} on average", series.case))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kit::{
        Failure, Skip,
        experiment::{Reading, Sample},
    };

    fn case(method: &str) -> Case {
        let params = Params::new().with("threads", 1000usize).with("order", "shuffled");
        Case { experiment: "ring".into(), method: method.into(), params }
    }

    fn sample(value: f64, elapsed: Duration) -> Sample {
        Sample { rounds: 2, elapsed, readings: vec![Reading::new(Unit::Nanoseconds, value)] }
    }

    fn results() -> Results {
        let quick = Duration::from_millis(1);
        let samples = [3.0, 1.0, 2.0].map(|value| sample(value, quick)).into();
        let slow = vec![sample(5.0, Duration::from_secs(1))];
        let measured = Measured {
            series: vec![
                Series { case: case("daiko"), rounds: 2, samples },
                Series { case: case("polling"), rounds: 2, samples: slow },
            ],
            skipped: vec![(case("go"), Skip::new("not installed"))],
            failed: vec![(case("tokio"), Failure::Broken("hung".into()))],
            interrupted: false,
        };
        Results::new(Host::detect(), &measured, Schedule::QUICK)
    }

    #[test]
    fn a_point_has_exactly_the_fields_of_the_format() {
        let json = serde_json::to_string(&results().points[0]).unwrap();
        assert_eq!(
            json,
            r#"{"experiment":"ring","method":"daiko","params":{"threads":1000,"order":"shuffled"},"unit":"ns","median":2.0,"min":1.0,"max":3.0,"runs":3}"#
        );
    }

    #[test]
    fn results_survive_their_file() {
        let results = results();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.json");
        results.write(&path).unwrap();
        let read: Results = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(read, results);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn published_figures_stand_beside_those_of_the_same_experiment() {
        let results = results();
        let published: Vec<_> =
            results.points.iter().filter(|point| point.source.is_some()).collect();
        assert!(published.iter().any(|point| point.median == 5.21));
        assert!(published.iter().all(|point| point.params.text("baseline").is_some()));
        assert_eq!(results.measured().count(), 2);
    }

    #[test]
    fn what_is_missing_says_why_and_what_is_slow_says_so() {
        let results = results();
        assert_eq!(results.skipped[0].reason, "not installed");
        assert_eq!(results.failed[0].reason, "hung");
        assert_eq!(results.notes.len(), 1);
        assert!(results.notes[0].ends_with(": at most 2 rounds a run, of 500 ms on average"));
    }
}
