use std::sync::Arc;

use super::*;
use crate::kit::Params;

/// A sampler with one method per name, which takes as many microseconds per round as the name has
/// letters.
struct Fake {
    log: Vec<(String, u64)>,
    limits: Vec<Duration>,
    fail_at: Option<(usize, Failure)>,
    stop_at: Option<usize>,
    stop: Arc<RunStop>,
    /// The samples that are disturbed, by this share.
    others: fn(usize) -> f64,
}

impl Default for Fake {
    fn default() -> Self {
        let (log, stop) = (Vec::new(), Arc::default());
        Self { log, limits: Vec::new(), fail_at: None, stop_at: None, stop, others: |_| 0.0 }
    }
}

impl Sampler for Fake {
    fn conditions(&mut self) -> Conditions {
        Conditions { others: (self.others)(self.log.len()), ..Conditions::default() }
    }

    fn sample(&mut self, case: &Case, effort: Effort) -> Result<Sample, Failure> {
        self.log.push((case.method.clone(), effort.rounds));
        self.limits.push(effort.limit);
        let count = self.log.len();
        if self.stop_at == Some(count) {
            self.stop.request();
        }
        if let Some((at, failure)) = &self.fail_at
            && *at == count
        {
            return Err(failure.clone());
        }
        let elapsed = Duration::from_micros(effort.rounds * case.method.len() as u64);
        let readings = vec![
            Reading::new(Unit::Nanoseconds, count as f64),
            Reading::stat(Unit::Nanoseconds, "p99", 2.0 * count as f64),
        ];
        Ok(Sample { rounds: effort.rounds, elapsed, readings })
    }
}

#[derive(Default)]
struct Count {
    total: usize,
    advanced: usize,
    notes: Vec<String>,
    /// Number of samples at each announcement.
    kept: Vec<usize>,
}

impl Observer for Count {
    fn begin(&mut self, samples: usize) {
        self.total = samples;
    }
    fn sampling(&mut self, _case: &Case) {}
    fn advance(&mut self, samples: usize) {
        self.advanced += samples;
    }
    fn note(&mut self, line: &str) {
        self.notes.push(line.into());
    }
    fn end(&mut self) {}
    fn kept(&mut self, measured: &Measured) {
        self.kept.push(measured.series.iter().map(|series| series.samples.len()).sum());
    }
}

const SCHEDULE: Schedule =
    Schedule { runs: 3, target: Duration::from_millis(1), limit: Duration::from_secs(1) };

fn planned(method: &str, rounds: Result<Rounds, Skip>) -> Planned {
    let case = Case { experiment: "fake".into(), method: method.into(), params: Params::new() };
    Planned { case, rounds }
}

fn fixed(method: &str) -> Planned {
    planned(method, Ok(Rounds::Fixed(1)))
}

fn run_fake(plan: Vec<Planned>, fake: &mut Fake) -> (Measured, Count) {
    let mut count = Count::default();
    let stop = fake.stop.clone();
    let measured = run(plan, SCHEDULE, fake, &mut count, &stop);
    (measured, count)
}

fn methods(fake: &Fake) -> Vec<&str> {
    fake.log.iter().map(|(method, _)| method.as_str()).collect()
}

#[test]
fn methods_take_turns() {
    let mut fake = Fake::default();
    let (measured, count) = run_fake(vec![fixed("a"), fixed("b"), fixed("c")], &mut fake);
    assert_eq!(methods(&fake), ["a", "b", "c", "a", "b", "c", "a", "b", "c"]);
    assert_eq!((count.total, count.advanced), (12, 12));
    assert_eq!(count.kept, [1, 2, 3, 4, 5, 6, 7, 8, 9], "each sample may be written to a file");
    assert!(measured.series.iter().all(|series| series.samples.len() == 3));
    assert!(!measured.interrupted);
}

#[test]
fn a_case_may_have_a_limit_of_its_own() {
    let long = Duration::from_secs(100);
    let own = planned("own", Ok(Rounds::Within { rounds: 7, limit: long }));
    let mut fake = Fake::default();
    run_fake(vec![own, fixed("usual")], &mut fake);
    let own: Vec<Duration> = [long, SCHEDULE.limit].repeat(SCHEDULE.runs);
    assert_eq!(fake.limits, own);
    assert_eq!(fake.log[0], ("own".into(), 7));
}

#[test]
fn rounds_are_chosen_to_fill_the_run_length() {
    let mut fake = Fake::default();
    // The methods take 1 and 10 us per round, a run takes 1 ms.
    let plan = ["a", "aaaaaaaaaa"].map(|name| planned(name, Ok(Rounds::Calibrated { first: 2 })));
    let (measured, _) = run_fake(plan.into(), &mut fake);
    let rounds: Vec<u64> = measured.series.iter().map(|series| series.effort.rounds).collect();
    assert_eq!(rounds, [1000, 100]);
}

#[test]
fn one_round_longer_than_a_run_is_still_a_run() {
    let sample = Sample { rounds: 1, elapsed: Duration::from_secs(1), readings: vec![] };
    assert_eq!(scaled(&sample, Duration::from_millis(1)), 1);
}

#[test]
fn an_immeasurably_short_sample_does_not_run_away() {
    let sample = Sample { rounds: 2, elapsed: Duration::ZERO, readings: vec![] };
    assert_eq!(scaled(&sample, Duration::from_millis(1)), 400);
}

#[test]
fn a_missing_case_is_skipped_and_a_broken_case_is_failed() {
    let plan = || vec![fixed("a"), fixed("b")];
    let mut fake =
        Fake { fail_at: Some((3, Failure::Unavailable("gone".into()))), ..Fake::default() };
    let (measured, count) = run_fake(plan(), &mut fake);
    assert_eq!(measured.skipped[0].1.reason, "gone");
    assert_eq!(methods(&fake), ["a", "b", "a", "b", "b"], "not sampled again");
    assert_eq!(count.advanced, count.total);

    let mut fake = Fake { fail_at: Some((1, Failure::Broken("bad".into()))), ..Fake::default() };
    let (measured, count) = run_fake(plan(), &mut fake);
    assert_eq!(measured.failed[0].0.method, "a");
    assert_eq!(count.notes, ["failed: fake a: bad"]);
    assert_eq!(measured.series.len(), 1);
}

#[test]
fn a_stop_keeps_measured_samples() {
    let mut fake = Fake { stop_at: Some(5), ..Fake::default() };
    let (measured, _) = run_fake(vec![fixed("a"), fixed("b"), fixed("c")], &mut fake);
    assert!(measured.interrupted);
    let samples: Vec<usize> = measured.series.iter().map(|series| series.samples.len()).collect();
    assert_eq!(samples, [2, 2, 1]);
}

/// The values of a case, which are the numbers of its samples, and how many are disturbed.
fn taken(plan: Vec<Planned>, fake: &mut Fake) -> Vec<(Vec<f64>, usize)> {
    let (measured, _) = run_fake(plan, fake);
    let points = measured.series.iter().map(|series| series.points().remove(0));
    let values = |point: &Point| point.samples.iter().map(|sample| sample.value).collect();
    points.map(|point| (values(&point), point.disturbed())).collect()
}

#[test]
fn a_disturbed_sample_is_repeated() {
    let plan = || ["a", "b", "c"].map(fixed).into();
    let mut fake = Fake { others: |sample| if sample == 2 { 0.9 } else { 0.0 }, ..Fake::default() };
    let taken = taken(plan(), &mut fake);
    assert_eq!(taken[0], (vec![1.0, 5.0, 8.0], 0));
    assert_eq!(taken[1], (vec![3.0, 6.0, 9.0], 0), "the second sample was disturbed");
}

#[test]
fn repeats_are_few_and_the_least_disturbed_sample_is_kept() {
    // Three cases of three samples have two repeats.
    let others = |sample| if sample == 2 { 0.5 } else { 0.9 };
    let taken = taken(["a", "b", "c"].map(fixed).into(), &mut Fake { others, ..Fake::default() });
    assert_eq!(taken[0], (vec![2.0, 6.0, 9.0], 3));
    assert_eq!(taken[1], (vec![4.0, 7.0, 10.0], 3));
}

#[test]
fn a_repeat_that_fails_leaves_the_disturbed_sample() {
    let fail_at = Some((2, Failure::Broken("bad".into())));
    let fake =
        Fake { fail_at, others: |sample| if sample == 1 { 0.9 } else { 0.0 }, ..Fake::default() };
    let taken = taken(["a", "b", "c"].map(fixed).into(), &mut { fake });
    assert_eq!(taken[0], (vec![1.0, 5.0, 8.0], 1));
}

#[test]
fn a_sample_that_fails_by_the_stop_costs_no_measured_samples() {
    let failure = Failure::Broken("stopped".into());
    let mut fake = Fake { stop_at: Some(5), fail_at: Some((5, failure)), ..Fake::default() };
    let (measured, count) = run_fake(vec![fixed("a"), fixed("b"), fixed("c")], &mut fake);
    let samples: Vec<usize> = measured.series.iter().map(|series| series.samples.len()).collect();
    assert_eq!(samples, [2, 1, 1]);
    assert!(measured.interrupted && measured.failed.is_empty() && count.notes.is_empty());
}

#[test]
fn a_stop_before_the_last_calibration_keeps_measured_samples() {
    // One sample calibrates "a", the next is its first.
    let mut fake = Fake { stop_at: Some(3), ..Fake::default() };
    let plan = ["a", "b"].map(|name| planned(name, Ok(Rounds::Calibrated { first: 300 })));
    let (measured, _) = run_fake(plan.into(), &mut fake);
    assert_eq!(methods(&fake), ["a", "a", "b"], "nothing after the stop");
    assert_eq!(measured.series.len(), 1);
    assert_eq!(measured.series[0].samples.len(), 1);
}

#[test]
fn a_skip_of_the_plan_is_not_sampled() {
    let mut fake = Fake::default();
    let (measured, _) = run_fake(vec![planned("a", Err(Skip::new("no")))], &mut fake);
    assert!(fake.log.is_empty());
    assert_eq!(measured.skipped.len(), 1);
}

#[test]
fn every_kind_of_reading_has_its_point() {
    let mut fake = Fake::default();
    let (measured, _) = run_fake(vec![fixed("a")], &mut fake);
    let points = measured.series[0].points();
    assert_eq!(points[0].params.get("stat"), None);
    assert_eq!(points[0].spread(), Spread { median: 2.0, min: 1.0, max: 3.0, is_disturbed: false });
    assert_eq!(points[0].runs, 3);
    assert_eq!(points[1].params.text("stat"), Some("p99"));
    assert_eq!(points[1].median, 4.0);
}
