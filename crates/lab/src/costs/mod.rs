//! What threads cost, item by item: create and join, yield.
//!
//! A method is a table of `Item`s, one per thing that it does; a method that
//! lacks an item has no point for it.
//!
//! | item | a round | value |
//! |---|---|---|
//! | `create-join` | one thread is created and joined | per round |
//! | `fork-join` | 10,000 threads are created, then all are joined | per thread |
//! | `yield` | two threads yield to each other, once each | per yield |
//!
//! Threads do nothing else. The first round of a sample is not timed: stacks and
//! what else a method keeps for reuse are there in those that are. All methods create and join from inside: a POSIX
//! thread, a tokio task, a fiber.

mod daiko;
mod laps;
mod nptl;
mod tokio;

use self::laps::Timed;
use crate::{
    Failure,
    experiment::{
        Case, Effort, Experiment, List, Options, Params, Planned, Reading, Rounds, Sample, Unit,
    },
};

const CREATE_JOIN: &str = "create-join";
const FORK_JOIN: &str = "fork-join";
const YIELD: &str = "yield";
/// The items, in the order of tables.
const ITEMS: [&str; 3] = [CREATE_JOIN, FORK_JOIN, YIELD];

/// Threads of a fork-join.
const FORKED: usize = 10_000;
/// Yields in a round of [`YIELD`].
const YIELDS: u64 = 2;

/// The methods, in the order of tables.
const METHODS: [Method; 3] = [nptl::METHOD, tokio::METHOD, daiko::METHOD];

/// A way to have threads.
struct Method {
    name: &'static str,
    items: &'static [Item],
}

/// Something that a method does and that costs time.
struct Item {
    /// One of [`ITEMS`].
    name: &'static str,
    /// How many times it happens in a round.
    times: u64,
    /// Rounds of the first, calibrating sample.
    first: u64,
    run: fn(Effort) -> Result<Timed, Failure>,
}

/// Create and join, fork and join, yield.
pub struct Costs;

impl Experiment for Costs {
    fn name(&self) -> &'static str {
        "costs"
    }

    fn about(&self) -> &'static str {
        "what threads cost: create and join, fork and join 10,000, yield"
    }

    fn methods(&self) -> Vec<&'static str> {
        METHODS.iter().map(|method| method.name).collect()
    }

    fn takes(&self, _: List) -> bool {
        false
    }

    fn plan(&self, options: &Options) -> Vec<Planned> {
        let mut plan = Vec::new();
        for name in ITEMS {
            for method in METHODS.iter().filter(|method| options.wants(method.name)) {
                let items = method.items.iter().filter(|item| item.name == name);
                plan.extend(items.map(|item| planned(method, item)));
            }
        }
        plan
    }

    fn sample(&self, case: &Case, effort: Effort) -> Result<Sample, Failure> {
        let Some(item) = find(case) else {
            return Err(Failure::Broken(format!("{case}: there is no such point")));
        };
        let Timed { rounds, elapsed } = (item.run)(effort)?;
        let each = elapsed.as_nanos() as f64 / (rounds * item.times) as f64;
        Ok(Sample { rounds, elapsed, readings: vec![Reading::new(Unit::Nanoseconds, each)] })
    }
}

fn planned(method: &Method, item: &Item) -> Planned {
    let case = Case {
        experiment: "costs".into(),
        method: method.name.into(),
        params: Params::new().with("item", item.name),
    };
    Planned { case, rounds: Ok(Rounds::Calibrated { first: item.first }) }
}

fn find(case: &Case) -> Option<&'static Item> {
    const { &METHODS }
        .iter()
        .find(|method| method.name == case.method)?
        .items
        .iter()
        .find(|item| Some(item.name) == case.params.text("item"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sample(planned: &Planned, rounds: u64, limit: Duration) -> Sample {
        Costs.sample(&planned.case, Effort { rounds, limit }).expect("a sample")
    }

    #[test]
    fn every_method_costs_time_for_every_item() {
        let plan = Costs.plan(&Options::default());
        assert_eq!(plan.len(), METHODS.len() * ITEMS.len());
        for planned in &plan {
            let sample = sample(planned, 3, Duration::from_secs(60));
            assert_eq!(sample.rounds, 3, "{}", planned.case);
            let [reading] = &sample.readings[..] else { panic!("{}", planned.case) };
            assert_eq!(reading.unit, Unit::Nanoseconds);
            assert!(reading.value > 0.0, "{}", planned.case);
        }
    }

    #[test]
    fn a_sample_ends_at_its_limit_with_whole_rounds() {
        for planned in Costs.plan(&Options::default()) {
            let sample = sample(&planned, u64::MAX, Duration::from_millis(5));
            assert!(sample.rounds > 0 && sample.readings[0].value > 0.0, "{}", planned.case);
        }
    }

    #[test]
    fn a_value_is_per_thread_and_per_yield() {
        for method in &METHODS {
            let times: Vec<u64> = method.items.iter().map(|item| item.times).collect();
            assert_eq!(times, [1, FORKED as u64, 2], "{}", method.name);
        }
    }

    #[test]
    fn only_the_methods_asked_for_are_planned() {
        let options = Options { methods: Some(vec!["daiko".into()]), ..Options::default() };
        let plan = Costs.plan(&options);
        let cases: Vec<String> = plan.iter().map(|planned| planned.case.to_string()).collect();
        assert_eq!(
            cases,
            [
                "costs daiko item=create-join",
                "costs daiko item=fork-join",
                "costs daiko item=yield"
            ]
        );
    }
}
