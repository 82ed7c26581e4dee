//! Limits of the hardware, as a lower bound of all other figures.
//!
//! This is the lab's own code and shares nothing with Daiko's, so that an error there cannot
//! distort these figures.

mod ring;
mod rmw;
mod stacks;
mod switch;

use crate::kit::{Experiment, List, Measure, Options, Params, Plan, Rounds, Skip, host, transfer};

const LINE_TRANSFER: &str = "line-transfer";
const DATUM_TRANSFER: &str = "datum-transfer";
const RMW_PAIR: &str = "rmw-pair";
const SWITCH: &str = "switch";
const ASSEMBLY_RING: &str = "assembly-ring";
const METHODS: [&str; 5] = [LINE_TRANSFER, DATUM_TRANSFER, RMW_PAIR, SWITCH, ASSEMBLY_RING];

/// Cache lines between CPUs, atomics, a bare switch, a ring without scheduler.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "limits",
    about: "what the hardware allows: cache lines between CPUs, atomics, a bare switch and ring",
    sizes: &["threads"],
    lists: &[List::Threads],
    methods: || METHODS.into(),
    cases,
    measure,
    published: Vec::new,
    sections: |_| Vec::new(),
};

fn cases(plan: &mut Plan<'_>) {
    for method in METHODS {
        match method {
            LINE_TRANSFER | DATUM_TRANSFER if host::cpus() < 2 => {
                let skip = Skip::new("needs 2 CPUs; one is allowed (see taskset, cpuset)");
                plan.add(method, Params::new(), Err(skip));
            }
            ASSEMBLY_RING => {
                for threads in ring_sizes(plan.options) {
                    plan.add(method, Params::new().with("threads", threads), ring_rounds(threads));
                }
            }
            _ => plan.add(method, Params::new(), Ok(Rounds::Calibrated { first: 1000 })),
        }
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let threads = params.size("threads");
    Some(match method {
        LINE_TRANSFER => Box::new(|effort| transfer::run::<false>(effort.rounds)),
        DATUM_TRANSFER => Box::new(|effort| transfer::run::<true>(effort.rounds)),
        RMW_PAIR => Box::new(|effort| Ok(rmw::run(effort.rounds))),
        SWITCH => Box::new(|effort| switch::run(effort.rounds)),
        ASSEMBLY_RING => {
            let threads = threads?;
            Box::new(move |effort| ring::run(threads, effort.rounds))
        }
        _ => return None,
    })
}

fn ring_rounds(threads: usize) -> Result<Rounds, Skip> {
    if threads > ring::MOST_THREADS {
        return Err(Skip::new(format!("measured up to {} threads", ring::MOST_THREADS)));
    }
    Ok(Rounds::Calibrated { first: (10_000 / threads as u64).max(2) })
}

fn ring_sizes(options: &Options) -> Vec<usize> {
    let all = [2, 10, 100, 1000, 10_000, 100_000];
    let own = || all.into_iter().filter(|&threads| !options.quick || threads <= 1000).collect();
    options.threads.clone().unwrap_or_else(own)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kit::Effort;

    #[test]
    fn every_method_gives_a_positive_time_for_all_its_rounds() {
        for planned in
            EXPERIMENT.plan(&Options { threads: Some(vec![2, 3, 100]), ..Options::default() })
        {
            let Ok(_) = planned.rounds else {
                println!("skipped: {}: {}", planned.case, planned.rounds.unwrap_err());
                continue;
            };
            let effort = Effort { rounds: 50, limit: Duration::from_secs(1) };
            let sample = EXPERIMENT.sample(&planned.case, effort).expect("a sample");
            assert_eq!(sample.rounds, 50, "{}", planned.case);
            assert!(sample.readings[0].value > 0.0, "{}", planned.case);
        }
    }
}
