//! What the hardware allows: the floor under every other figure.
//!
//! All of it is the lab's own code and shares nothing with Daiko's, so that a
//! mistake there cannot flatter or hide itself here.

mod ring;
mod rmw;
mod stacks;
mod switch;
pub(crate) mod transfer;

use std::time::Duration;

use crate::kit::{
    Case, Effort, Experiment, Failure, List, Options, Params, Planned, Reading, Rounds, Sample,
    Skip, Unit, host,
};

const LINE_TRANSFER: &str = "line-transfer";
const DATUM_TRANSFER: &str = "datum-transfer";
const RMW_PAIR: &str = "rmw-pair";
const SWITCH: &str = "switch";
const ASSEMBLY_RING: &str = "assembly-ring";

/// Cache lines between CPUs, atomics, a bare switch, a ring without scheduler.
pub struct Limits;

/// Time for a number of rounds.
pub(crate) struct Timed {
    rounds: u64,
    pub(crate) elapsed: Duration,
}

impl Experiment for Limits {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn about(&self) -> &'static str {
        "what the hardware allows: cache lines between CPUs, atomics, a bare switch and ring"
    }

    fn methods(&self) -> Vec<&'static str> {
        vec![LINE_TRANSFER, DATUM_TRANSFER, RMW_PAIR, SWITCH, ASSEMBLY_RING]
    }

    fn takes(&self, list: List) -> bool {
        list == List::Threads
    }

    fn plan(&self, options: &Options) -> Vec<Planned> {
        let methods = self.methods().into_iter().filter(|method| options.wants(method));
        methods.flat_map(|method| plan_method(method, options)).collect()
    }

    fn sample(&self, case: &Case, effort: Effort) -> Result<Sample, Failure> {
        let threads = case.params.number("threads").unwrap_or(0) as usize;
        let rounds = effort.rounds;
        // How many times the timed thing happens in a round.
        let (timed, times) = match case.method.as_str() {
            LINE_TRANSFER => (transfer::run::<false>(rounds)?, 2),
            DATUM_TRANSFER => (transfer::run::<true>(rounds)?, 2),
            RMW_PAIR => (rmw::run(rounds), 1),
            SWITCH => (switch::run(rounds)?, 2),
            ASSEMBLY_RING => (ring::run(threads, rounds)?, threads),
            _ => return Err(Failure::Broken(format!("{case}: there is no such point"))),
        };
        let count = timed.rounds as f64 * times as f64;
        let value = timed.elapsed.as_nanos() as f64 / count;
        let readings = vec![Reading::new(Unit::Nanoseconds, value)];
        Ok(Sample { rounds: timed.rounds, elapsed: timed.elapsed, readings })
    }
}

fn plan_method(method: &'static str, options: &Options) -> Vec<Planned> {
    let planned = |params, rounds| {
        let case = Case { experiment: "limits".into(), method: method.into(), params };
        Planned { case, rounds }
    };
    let first = Rounds::Calibrated { first: 1000 };
    match method {
        LINE_TRANSFER | DATUM_TRANSFER if host::cpus() < 2 => {
            vec![planned(
                Params::new(),
                Err(Skip::new("needs 2 CPUs; one is allowed (see taskset, cpuset)")),
            )]
        }
        ASSEMBLY_RING => ring_sizes(options)
            .into_iter()
            .map(|threads| planned(Params::new().with("threads", threads), ring_rounds(threads)))
            .collect(),
        _ => vec![planned(Params::new(), Ok(first))],
    }
}

fn ring_rounds(threads: usize) -> Result<Rounds, Skip> {
    if threads > ring::MOST_THREADS {
        return Err(Skip::new(format!("measured up to {} threads", ring::MOST_THREADS)));
    }
    Ok(Rounds::Calibrated { first: (10_000 / threads as u64).max(2) })
}

fn ring_sizes(options: &Options) -> Vec<usize> {
    let all = [2, 10, 100, 1000, 10_000, 100_000];
    match &options.threads {
        Some(asked) => asked.clone(),
        None => all.into_iter().filter(|&threads| !options.quick || threads <= 1000).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_gives_a_positive_time_for_all_its_rounds() {
        for planned in
            Limits.plan(&Options { threads: Some(vec![2, 3, 100]), ..Options::default() })
        {
            let Ok(_) = planned.rounds else {
                println!("skipped: {}: {}", planned.case, planned.rounds.unwrap_err());
                continue;
            };
            let effort = Effort { rounds: 50, limit: Duration::from_secs(1) };
            let sample = Limits.sample(&planned.case, effort).expect("a sample");
            assert_eq!(sample.rounds, 50, "{}", planned.case);
            assert!(sample.readings[0].value > 0.0, "{}", planned.case);
        }
    }
}
