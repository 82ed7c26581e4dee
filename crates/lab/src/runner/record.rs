//! Conversion of a run's measurements to results.

use super::{Measured, Schedule, Series};
use crate::experiments;
use crate::kit::results::SCHEMA;
use crate::kit::{Case, Host, Missing, Point, Results, format};

/// A run that exceeds its intended length by this factor with at most this many rounds is reported.
const SLOW: u32 = 4;
const FEW_ROUNDS: u64 = 10;

impl Measured {
    /// Builds the results on `host`, with published figures beside them.
    pub fn results(&self, host: Host, schedule: Schedule) -> Results {
        let mut points: Vec<Point> = self.series.iter().flat_map(Series::points).collect();
        for experiment in experiments::ALL {
            if points.iter().any(|point| point.experiment == experiment.name) {
                points.extend((experiment.published)());
            }
        }
        Results {
            schema: SCHEMA,
            host,
            points,
            skipped: self.skipped.iter().map(|(case, why)| missing(case, why)).collect(),
            failed: self.failed.iter().map(|(case, why)| missing(case, why)).collect(),
            notes: self.series.iter().filter_map(|series| slow_note(series, schedule)).collect(),
            interrupted: self.interrupted,
        }
    }
}

fn missing(case: &Case, reason: &impl ToString) -> Missing {
    Missing {
        experiment: case.experiment.clone(),
        method: case.method.clone(),
        params: case.params.clone(),
        reason: reason.to_string(),
    }
}

/// Note on a case with rounds so long that a run has only a few of them.
fn slow_note(series: &Series, schedule: Schedule) -> Option<String> {
    let samples = &series.samples;
    let most = samples.iter().map(|sample| sample.rounds).max()?;
    let slow = samples.iter().any(|sample| sample.elapsed > schedule.target * SLOW);
    if most > FEW_ROUNDS || !slow {
        return None;
    }
    // In floating point, as a child process may return any numbers.
    let rounds: f64 = samples.iter().map(|sample| sample.rounds as f64).sum();
    let seconds: f64 = samples.iter().map(|sample| sample.elapsed.as_secs_f64()).sum();
    let each = format::seconds(seconds / rounds.max(1.0));
    let rounds = if most == 1 { "1 round".into() } else { format!("{most} rounds") };
    Some(format!("{}: at most {rounds} a run, of {each} on average", series.case))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::kit::{Conditions, Effort, Failure, Params, Reading, Sample, Skip, Unit};

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
        let effort = Effort { rounds: 2, limit: Duration::from_secs(1) };
        let conditions = vec![Conditions { others: 0.5, load: 8.25, ..Conditions::default() }];
        let measured = Measured {
            series: vec![
                Series { case: case("daiko"), effort, samples, conditions },
                Series { case: case("polling"), effort, samples: slow, conditions: vec![] },
            ],
            skipped: vec![(case("go"), Skip::new("not installed"))],
            failed: vec![(case("tokio"), Failure::Broken("hung".into()))],
            interrupted: false,
        };
        measured.results(Host::detect(), Schedule::QUICK)
    }

    #[test]
    fn a_point_has_exactly_the_fields_of_the_format() {
        let json = serde_json::to_string(&results().points[0]).unwrap();
        assert_eq!(
            json,
            r#"{"experiment":"ring","method":"daiko","params":{"threads":1000,"order":"shuffled"},"unit":"ns","median":2.0,"min":1.0,"max":3.0,"runs":3,"samples":[{"value":3.0,"load":8.25,"stolen":0.0,"others":0.5,"involuntary":0},{"value":1.0,"load":0.0,"stolen":0.0,"others":0.0,"involuntary":0},{"value":2.0,"load":0.0,"stolen":0.0,"others":0.0,"involuntary":0}]}"#
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
    fn disturbed_runs_are_counted() {
        let results = results();
        assert_eq!(results.disturbed(), (1, 4));
        assert_eq!(results.points[0].disturbed(), 1);
        assert!(results.points[0].spread().is_disturbed);
        assert!(!results.points[1].spread().is_disturbed);
    }

    #[test]
    fn missing_cases_have_reasons_and_slow_cases_notes() {
        let results = results();
        assert_eq!(results.skipped[0].reason, "not installed");
        assert_eq!(results.failed[0].reason, "hung");
        assert_eq!(results.notes.len(), 1);
        assert!(results.notes[0].ends_with(": at most 2 rounds a run, of 500 ms on average"));
    }
}
