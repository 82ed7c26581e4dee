//! Limits of the hardware, as a lower bound of all other figures.
//!
//! This is the lab's own code and shares nothing with Daiko's, so that an error there cannot
//! distort these figures.

mod ring;
mod rmw;
mod stacks;
mod switch;
mod thread_pointer;

use crate::kit::{
    Experiment, Failure, List, Measure, Options, Params, Plan, Rounds, Sample, Skip,
    ThreadRegister, has_fsgsbase, host, transfer,
};

/// Takes a sample of so many rounds.
type Run = fn(u64) -> Result<Sample, Failure>;

/// The methods without parameters, with the CPUs that they need.
const PLAIN: [(&str, usize, Run); 4] = [
    ("line-transfer", 2, transfer::run::<false>),
    ("datum-transfer", 2, transfer::run::<true>),
    ("rmw-pair", 1, |rounds| Ok(rmw::run(rounds))),
    ("switch", 1, switch::run),
];
/// Writes the thread pointer, in each of the ways that exist here.
const THREAD_POINTER: &str = "thread-pointer";
const ASSEMBLY_RING: &str = "assembly-ring";
/// The same, and each hop writes the thread pointer: the bound for fibers with thread-locals of
/// their own.
const ASSEMBLY_RING_OWN: &str = "assembly-ring-own";

/// Cache lines between CPUs, atomics, a bare switch, the thread pointer, a ring without scheduler.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "limits",
    about: "limits of the hardware: cache lines between CPUs, atomics, the thread pointer, a bare switch and ring",
    sizes: &["threads"],
    lists: &[List::Threads],
    methods: || {
        let more = [THREAD_POINTER, ASSEMBLY_RING, ASSEMBLY_RING_OWN];
        PLAIN.iter().map(|(name, ..)| *name).chain(more).collect()
    },
    cases,
    measure,
    published: Vec::new,
    sections: |_| Vec::new(),
};

fn cases(plan: &mut Plan<'_>) {
    for (method, cpus, _) in PLAIN {
        let rounds = match host::cpus() < cpus {
            true => Err(Skip::new("needs 2 CPUs; one is allowed (see taskset, cpuset)")),
            false => Ok(Rounds::Calibrated { first: 1000 }),
        };
        plan.add(method, Params::new(), rounds);
    }
    for way in ThreadRegister::here() {
        let params = Params::new().with("thread-register", way);
        plan.add(THREAD_POINTER, params, Ok(Rounds::Calibrated { first: 1000 }));
    }
    for threads in ring_sizes(plan.options) {
        let params = || Params::new().with("threads", threads);
        plan.add(ASSEMBLY_RING, params(), ring_rounds(threads));
        let own = if has_fsgsbase() { Ok(()) } else { Err(Skip::new("FSGSBASE is off")) };
        plan.add(ASSEMBLY_RING_OWN, params(), own.and_then(|()| ring_rounds(threads)));
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    if method == THREAD_POINTER {
        let way = params.choice("thread-register")?;
        return Some(Box::new(move |effort| thread_pointer::run(way, effort.rounds)));
    }
    if method == ASSEMBLY_RING {
        let threads = params.size("threads")?;
        return Some(Box::new(move |effort| ring::run::<false>(threads, effort.rounds)));
    }
    if method == ASSEMBLY_RING_OWN {
        let threads = params.size("threads")?;
        return Some(Box::new(move |effort| ring::run::<true>(threads, effort.rounds)));
    }
    let (_, _, run) = PLAIN.into_iter().find(|(known, ..)| *known == method)?;
    Some(Box::new(move |effort| run(effort.rounds)))
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
