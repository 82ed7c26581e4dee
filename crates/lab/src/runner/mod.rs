//! Execution of a plan. Each sweep takes one sample of every case, and there are as many sweeps as
//! runs, so that drift of the machine affects all methods alike. Each case is calibrated
//! immediately before its first sample, so that an interrupted run has samples.

pub mod child;
pub mod progress;
mod record;

use std::fmt;
use std::time::Duration;

use crate::kit::results::PointSample;
use crate::kit::{
    Case, Conditions, Effort, Failure, Planned, Point, Reading, Rounds, RunStop, Sample, Skip,
    Spread, Unit, distinct,
};

/// Largest number of samples that only determine the number of rounds.
const MOST_CALIBRATIONS: u32 = 4;
/// Largest growth of rounds after a sample. A larger factor would rely on a sample too short to be
/// reliable.
const MOST_GROWTH: f64 = 200.0;
/// Largest number of repeats of a disturbed sample.
const MOST_REPEATS: usize = 2;
/// A run repeats at most one sample in this many: on a machine that is always disturbed, repeats
/// only take time.
const REPEATS_IN: usize = 4;

/// Number and length of samples.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Samples per case, after calibration.
    pub runs: usize,
    /// Target length of a sample.
    pub target: Duration,
    /// Length after which a sample ends early.
    pub limit: Duration,
}

impl Schedule {
    /// Full schedule: 7 runs of 50 ms.
    pub const FULL: Self =
        Self { runs: 7, target: Duration::from_millis(50), limit: Duration::from_secs(5) };
    /// Quick schedule: 5 runs of 10 ms.
    pub const QUICK: Self =
        Self { runs: 5, target: Duration::from_millis(10), limit: Duration::from_secs(2) };
}

/// A way to take one sample of a case.
pub trait Sampler {
    /// Takes one sample of `case`.
    ///
    /// # Errors
    /// Returns the reason why there is no value; the case is not sampled again.
    fn sample(&mut self, case: &Case, effort: Effort) -> Result<Sample, Failure>;

    /// The machine's state during the last sample.
    fn conditions(&mut self) -> Conditions {
        Conditions::default()
    }
}

/// An observer of the runner's progress.
pub trait Observer {
    /// Announces the number of samples, with calibration counted once per case.
    fn begin(&mut self, samples: usize);
    /// Announces that `case` is sampled next.
    fn sampling(&mut self, case: &Case);
    /// Reports that `samples` are done, measured or not.
    fn advance(&mut self, samples: usize);
    /// Shows a line that the user should read now.
    fn note(&mut self, line: &str);
    /// Announces the end of all samples.
    fn end(&mut self);
    /// Shows all that was measured so far, after each sample.
    fn kept(&mut self, _measured: &Measured) {}
}

/// The outcome of a run of the lab.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The cases with at least one sample.
    pub series: Vec<Series>,
    /// The cases left out.
    pub skipped: Vec<(Case, Skip)>,
    /// The cases that failed.
    pub failed: Vec<(Case, Failure)>,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
}

/// The samples of one case.
#[derive(Clone, Debug)]
pub struct Series {
    /// The measured case.
    pub case: Case,
    /// The limits of each sample.
    pub effort: Effort,
    /// The samples, in the order they were taken.
    pub samples: Vec<Sample>,
    /// The machine's state during each of them; nothing is known of those beyond the end.
    pub conditions: Vec<Conditions>,
}

impl Series {
    /// Builds a point for every reading of the samples.
    pub fn points(&self) -> Vec<Point> {
        let kinds = distinct(self.readings().map(|reading| (reading.unit, &reading.stat)));
        kinds.into_iter().filter_map(|(unit, stat)| self.point(unit, stat)).collect()
    }

    fn point(&self, unit: Unit, stat: &Option<String>) -> Option<Point> {
        let same = |reading: &&Reading| reading.unit == unit && reading.stat == *stat;
        let conditions =
            self.conditions.iter().copied().chain(std::iter::repeat(Conditions::default()));
        let mut samples = Vec::new();
        for (sample, conditions) in self.samples.iter().zip(conditions) {
            let values = sample.readings.iter().filter(same).map(|reading| reading.value);
            samples.extend(values.map(|value| PointSample { value, conditions }));
        }
        let runs = samples.len();
        let values = samples.iter().map(|sample| sample.value).collect();
        let Spread { median, min, max, .. } = Spread::of(values)?;
        let Case { experiment, method, params } = self.case.clone();
        let params = params.with_some("stat", stat.as_deref());
        Some(Point {
            experiment,
            method,
            params,
            unit,
            median,
            min,
            max,
            runs,
            source: None,
            samples,
        })
    }

    fn readings(&self) -> impl Iterator<Item = &Reading> {
        self.samples.iter().flat_map(|sample| &sample.readings)
    }
}

/// Measures `plan` until it is done or `stop` is requested.
pub fn run(
    plan: Vec<Planned>,
    schedule: Schedule,
    sampler: &mut dyn Sampler,
    observer: &mut dyn Observer,
    stop: &RunStop,
) -> Measured {
    let mut measured = Measured::default();
    let mut cases = Vec::new();
    for Planned { case, rounds } in plan {
        match rounds {
            Ok(rounds) => cases.push((case, rounds)),
            Err(skip) => measured.skipped.push((case, skip)),
        }
    }
    let repeats = cases.len() * schedule.runs / REPEATS_IN;
    let mut run = ExperimentRun { schedule, sampler, observer, stop, measured, repeats };
    run.observer.begin(cases.len() * (schedule.runs + 1));
    run.first_sweep(cases);
    for _ in 1..schedule.runs {
        run.sweep();
    }
    run.observer.end();
    run.measured.interrupted = run.stopped();
    run.measured.series.retain(|series| !series.samples.is_empty());
    run.measured
}

struct ExperimentRun<'a> {
    schedule: Schedule,
    sampler: &'a mut dyn Sampler,
    observer: &'a mut dyn Observer,
    stop: &'a RunStop,
    measured: Measured,
    /// Number of repeats that are left.
    repeats: usize,
}

impl ExperimentRun<'_> {
    fn stopped(&self) -> bool {
        self.stop.is_requested()
    }

    fn first_sweep(&mut self, cases: Vec<(Case, Rounds)>) {
        for (case, rounds) in cases {
            if self.stopped() {
                return;
            }
            self.observer.sampling(&case);
            match self.calibrate(&case, rounds) {
                // The rounds may stem from a sample that was too short, the failure from the stop.
                _ if self.stopped() => return,
                Ok(effort) => {
                    self.observer.advance(1);
                    self.measured.series.push(Series {
                        case,
                        effort,
                        samples: Vec::new(),
                        conditions: Vec::new(),
                    });
                    self.sample(self.measured.series.len() - 1);
                }
                Err(failure) => {
                    self.observer.advance(self.schedule.runs + 1);
                    self.give_up(case, failure);
                }
            }
        }
    }

    fn calibrate(&mut self, case: &Case, rounds: Rounds) -> Result<Effort, Failure> {
        let first = match rounds {
            Rounds::Fixed(rounds) => return Ok(self.effort(rounds)),
            Rounds::Within { rounds, limit } => return Ok(Effort { rounds, limit }),
            Rounds::Calibrated { first } => first,
        };
        let mut rounds = first;
        for _ in 0..MOST_CALIBRATIONS {
            let sample = self.sampler.sample(case, self.effort(rounds))?;
            let fits = sample.elapsed >= self.schedule.target / 4 || sample.rounds < rounds;
            rounds = scaled(&sample, self.schedule.target);
            if fits || self.stopped() {
                break;
            }
        }
        Ok(self.effort(rounds))
    }

    /// Takes one more sample of every case that has not failed.
    fn sweep(&mut self) {
        let mut index = 0;
        while index < self.measured.series.len() && !self.stopped() {
            self.observer.sampling(&self.measured.series[index].case);
            if self.sample(index) {
                index += 1;
            }
        }
    }

    /// Takes one sample. Returns false if it failed and the series was removed. A failure after a
    /// stop is due to it.
    fn sample(&mut self, index: usize) -> bool {
        match self.least_disturbed(index) {
            Ok((sample, conditions)) => {
                let series = &mut self.measured.series[index];
                series.samples.push(sample);
                series.conditions.push(conditions);
                self.observer.advance(1);
                self.observer.kept(&self.measured);
                true
            }
            Err(_) if self.stopped() => true,
            Err(failure) => {
                let series = self.measured.series.remove(index);
                self.observer.advance(self.schedule.runs - series.samples.len());
                self.give_up(series.case, failure);
                false
            }
        }
    }

    /// Takes a sample, again if it is disturbed, and returns the least disturbed one.
    fn least_disturbed(&mut self, index: usize) -> Result<(Sample, Conditions), Failure> {
        let series = &self.measured.series[index];
        let effort = series.effort;
        let mut best = (self.sampler.sample(&series.case, effort)?, self.sampler.conditions());
        for _ in 0..MOST_REPEATS {
            if !best.1.is_disturbed() || self.repeats == 0 || self.stopped() {
                break;
            }
            self.repeats -= 1;
            // A repeat that fails leaves the sample that it should replace.
            let Ok(sample) = self.sampler.sample(&series.case, effort) else { break };
            let conditions = self.sampler.conditions();
            if conditions.taken() < best.1.taken() {
                best = (sample, conditions);
            }
        }
        Ok(best)
    }

    fn effort(&self, rounds: u64) -> Effort {
        Effort { rounds, limit: self.schedule.limit }
    }

    /// Records a missing requirement as a skip, and anything else as a failure.
    fn give_up(&mut self, case: Case, failure: Failure) {
        match failure {
            Failure::Unavailable(reason) | Failure::Limit(reason) | Failure::TooShort(reason) => {
                self.measured.skipped.push((case, Skip::new(reason)));
            }
            failure => {
                self.observer.note(&format!("failed: {case}: {failure}"));
                self.measured.failed.push((case, failure));
            }
        }
    }
}

/// Number of rounds that fill `target` at the speed of `sample`, at least one.
fn scaled(sample: &Sample, target: Duration) -> u64 {
    let pace = target.as_secs_f64() / sample.elapsed.as_secs_f64().max(1e-9);
    let rounds = sample.rounds as f64 * pace.min(MOST_GROWTH);
    (rounds.ceil() as u64).max(1)
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (points, skipped, failed) = (self.series.len(), self.skipped.len(), self.failed.len());
        write!(f, "{points} points measured, {skipped} skipped, {failed} failed")
    }
}

#[cfg(test)]
mod tests;
