//! Takes the samples: goes round all cases, one sample each, as often as there
//! are runs, so that drift of the machine hits all methods alike. Each case is
//! calibrated before its first sample, so that an interrupt finds samples.

pub mod child;
pub mod progress;
mod record;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::kit::{
    Case, Effort, Failure, Planned, Point, Reading, Rounds, Sample, Skip, Spread, Unit, distinct,
};

/// Samples that only look for the number of rounds.
const MOST_CALIBRATIONS: u32 = 4;
/// A growth beyond this would trust a first sample too short to be trusted.
const MOST_GROWTH: f64 = 200.0;

/// How long and how often to measure.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Samples per case, after calibration.
    pub runs: usize,
    /// Length a sample is calibrated to.
    pub target: Duration,
    /// Length at which a sample gives up.
    pub limit: Duration,
}

impl Schedule {
    /// 7 runs of 50 ms.
    pub const FULL: Self =
        Self { runs: 7, target: Duration::from_millis(50), limit: Duration::from_secs(5) };
    /// 5 runs of 10 ms.
    pub const QUICK: Self =
        Self { runs: 5, target: Duration::from_millis(10), limit: Duration::from_secs(2) };
}

/// Takes one sample of a case.
pub trait Sampler {
    /// One sample of `case`.
    ///
    /// # Errors
    /// Why there is no value; the case is not sampled again.
    fn sample(&mut self, case: &Case, effort: Effort) -> Result<Sample, Failure>;
}

/// Is told how far the runner is.
pub trait Observer {
    /// `samples` will be taken, calibration counted once per case.
    fn begin(&mut self, samples: usize);
    /// `case` is sampled next.
    fn sampling(&mut self, case: &Case);
    /// `samples` are done with, measured or given up.
    fn advance(&mut self, samples: usize);
    /// Something the user should read now.
    fn note(&mut self, line: &str);
    /// No more samples.
    fn end(&mut self);
}

/// All that a run of the lab found out.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The cases with at least one sample.
    pub series: Vec<Series>,
    /// The cases left out.
    pub skipped: Vec<(Case, Skip)>,
    /// The cases that went wrong.
    pub failed: Vec<(Case, Failure)>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

/// The samples of one case.
#[derive(Clone, Debug)]
pub struct Series {
    /// What was measured.
    pub case: Case,
    /// Rounds each sample was asked for.
    pub rounds: u64,
    /// The samples, in the order they were taken.
    pub samples: Vec<Sample>,
}

impl Series {
    /// A point for every reading of the samples.
    pub fn points(&self) -> Vec<Point> {
        let kinds = distinct(self.readings().map(|reading| (reading.unit, &reading.stat)));
        kinds.into_iter().filter_map(|(unit, stat)| self.point(unit, stat)).collect()
    }

    fn point(&self, unit: Unit, stat: &Option<String>) -> Option<Point> {
        let same = |reading: &&Reading| reading.unit == unit && reading.stat == *stat;
        let values: Vec<f64> = self.readings().filter(same).map(|reading| reading.value).collect();
        let runs = values.len();
        let Spread { median, min, max } = Spread::of(values)?;
        let Case { experiment, method, params } = self.case.clone();
        let params = params.with_some("stat", stat.as_deref());
        Some(Point { experiment, method, params, unit, median, min, max, runs, source: None })
    }

    fn readings(&self) -> impl Iterator<Item = &Reading> {
        self.samples.iter().flat_map(|sample| &sample.readings)
    }
}

/// Measures `plan` until it is done or `stop` becomes true.
pub fn run(
    plan: Vec<Planned>,
    schedule: Schedule,
    sampler: &mut dyn Sampler,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Measured {
    let mut measured = Measured::default();
    let mut cases = Vec::new();
    for Planned { case, rounds } in plan {
        match rounds {
            Ok(rounds) => cases.push((case, rounds)),
            Err(skip) => measured.skipped.push((case, skip)),
        }
    }
    let mut run = Run { schedule, sampler, observer, stop, measured };
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

struct Run<'a> {
    schedule: Schedule,
    sampler: &'a mut dyn Sampler,
    observer: &'a mut dyn Observer,
    stop: &'a AtomicBool,
    measured: Measured,
}

impl Run<'_> {
    fn stopped(&self) -> bool {
        // A flag alone: nothing is read on the strength of it.
        self.stop.load(Ordering::Relaxed)
    }

    fn first_sweep(&mut self, cases: Vec<(Case, Rounds)>) {
        for (case, rounds) in cases {
            if self.stopped() {
                return;
            }
            self.observer.sampling(&case);
            match self.calibrate(&case, rounds) {
                // Too short a sample may have told the rounds.
                Ok(_) if self.stopped() => return,
                Ok(rounds) => {
                    self.observer.advance(1);
                    self.measured.series.push(Series { case, rounds, samples: Vec::new() });
                    self.sample(self.measured.series.len() - 1);
                }
                Err(failure) => {
                    self.observer.advance(self.schedule.runs + 1);
                    self.give_up(case, failure);
                }
            }
        }
    }

    fn calibrate(&mut self, case: &Case, rounds: Rounds) -> Result<u64, Failure> {
        let first = match rounds {
            Rounds::Fixed(rounds) => return Ok(rounds),
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
        Ok(rounds)
    }

    /// One more sample of every case that has not failed.
    fn sweep(&mut self) {
        let mut index = 0;
        while index < self.measured.series.len() && !self.stopped() {
            self.observer.sampling(&self.measured.series[index].case);
            if self.sample(index) {
                index += 1;
            }
        }
    }

    /// One sample; false if it failed, and the series is gone.
    fn sample(&mut self, index: usize) -> bool {
        let effort = self.effort(self.measured.series[index].rounds);
        let series = &mut self.measured.series[index];
        match self.sampler.sample(&series.case, effort) {
            Ok(sample) => {
                series.samples.push(sample);
                self.observer.advance(1);
                true
            }
            Err(failure) => {
                let series = self.measured.series.remove(index);
                self.observer.advance(self.schedule.runs - series.samples.len());
                self.give_up(series.case, failure);
                false
            }
        }
    }

    fn effort(&self, rounds: u64) -> Effort {
        Effort { rounds, limit: self.schedule.limit }
    }

    /// What is missing on this machine is a skip; the rest is a fault.
    fn give_up(&mut self, case: Case, failure: Failure) {
        match failure {
            Failure::Unavailable(reason) | Failure::Limit(reason) | Failure::TooShort(reason) => {
                self.measured.skipped.push((case, Skip { reason }));
            }
            failure => {
                self.observer.note(&format!("failed: {case}: {failure}"));
                self.measured.failed.push((case, failure));
            }
        }
    }
}

/// The rounds that fill `target` at the pace of `sample`, at least one.
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
