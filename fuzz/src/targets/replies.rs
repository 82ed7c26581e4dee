//! The reply of a sample's child, up to the report.

use daiko_lab::{
    Failure,
    kit::{Case, Effort, Params, Planned, Rounds, RunStop, Sample},
    runner::{self, Observer, Sampler, Schedule},
};

use super::results;

/// The input is the reply as JSON, which serves as every sample of the run.
pub(super) fn fuzz(data: &[u8]) {
    let Ok(answer) = serde_json::from_slice::<Answer>(data) else { return };
    let text = serde_json::to_vec(&answer).expect("JSON");
    assert_eq!(serde_json::from_slice::<Answer>(&text).expect("the same JSON"), answer);

    let params = Params::new().with("threads", 10usize).with("order", "shuffled");
    let case = Case { experiment: "ring".into(), method: "daiko".into(), params };
    let plan = vec![Planned { case, rounds: Ok(Rounds::Calibrated { first: 1 }) }];
    let (schedule, stop) = (Schedule::QUICK, RunStop::default());
    let measured = runner::run(plan, schedule, &mut Child(answer), &mut Nobody, &stop);
    assert_eq!(measured.series.len() + measured.skipped.len() + measured.failed.len(), 1);
    results::check(&measured.results(results::host(), schedule));
}

type Answer = Result<Sample, Failure>;

struct Child(Answer);

impl Sampler for Child {
    fn sample(&mut self, _: &Case, _: Effort) -> Answer {
        self.0.clone()
    }
}

struct Nobody;

impl Observer for Nobody {
    fn begin(&mut self, _: usize) {}
    fn sampling(&mut self, _: &Case) {}
    fn advance(&mut self, _: usize) {}
    fn note(&mut self, _: &str) {}
    fn end(&mut self) {}
}
