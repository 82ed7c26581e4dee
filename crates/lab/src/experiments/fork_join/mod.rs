//! Work that forks and joins, without and with a cut-off.
//!
//! - `work=fib-24`: the Fibonacci number of 24, with a fork at each call: 75,024 forks.
//! - `work=fib-30`: that of 30, by a loop without forks below 12: 10,945 forks.
//! - `work=tree`: the sum over a tree of 300,000 nodes, with a fork at each node.
//! - `work=sort`: a merge sort of 4 million numbers, by `sort_unstable` below 4,096 of them.
//!
//! A fork starts one branch, runs the other itself, and joins the first. Methods:
//!
//! - `daiko`: `daiko::spawn`, and `join` of its handle.
//! - `daiko-borrowed`: the same, in fibers that borrow the thread-locals of their worker.
//! - `daiko-join`: `daiko::join`, which starts nothing unless a worker is idle.
//! - `rayon`: `rayon::join`, in a pool of as many threads as workers.
//! - `tokio`, `tokio-current`: `tokio::spawn`, and an await of its handle, in the multi-threaded
//!   runtime and in that of the calling thread.
//! - `may`: a coroutine, and `join` of its handle. Stacks are kept up to the limit of the kernel.
//! - `go`: a goroutine, and a channel for its result.
//! - `argobots`: a thread of the library, and its join, by schedulers that steal.
//! - `sequential`: no forks.
//!
//! The work is done once before it is measured, so that stacks and pools are there. Each result is
//! checked. `peak-memory` is the growth of the process's resident memory, at its most, from before
//! the runtime starts; the tree and the numbers exist before that.

mod clock;
mod coroutines;
mod fibers;
mod figures;
mod pool;
mod programs;
mod sequential;
mod tasks;
mod work;

use self::clock::WorkClock;
use self::fibers::{Joined, Spawned, SpawnedBorrowed};
use self::work::Work;
use crate::kit::argobots::ARGOBOTS;
use crate::kit::coroutines::MAY;
use crate::kit::tasks::TOKIO;
use crate::kit::{Choice, Experiment, Failure, List, Measure, Params, Plan, Rounds, Skip, host};

/// Work that forks and joins.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "fork and join: Fibonacci numbers, a tree, a merge sort, beside rayon, tokio, Go and more",
    sizes: &["workers"],
    lists: &[List::Workers],
    methods: || methods().map(|(name, _)| name).collect(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

/// Runs a work with so many workers, as often as the clock asks.
type Runner = fn(Work, usize, &mut WorkClock) -> Result<(), Failure>;

fn methods() -> impl Iterator<Item = (&'static str, Runner)> {
    let own: [(&str, Runner); 6] = [
        ("daiko", fibers::run::<Spawned>),
        ("daiko-borrowed", fibers::run::<SpawnedBorrowed>),
        ("daiko-join", fibers::run::<Joined>),
        ("rayon", pool::run),
        (TOKIO[0].0, tasks::run_multi_thread),
        (TOKIO[1].0, tasks::run_current_thread),
    ];
    let others: [(&str, Runner); 4] = [
        (MAY, coroutines::run),
        ("go", programs::run_goroutines),
        (ARGOBOTS, programs::run_argobots),
        ("sequential", sequential::run),
    ];
    own.into_iter().chain(others)
}

fn cases(plan: &mut Plan<'_>) {
    let workers = workers(plan.options.workers.clone());
    for work in Work::all() {
        for (method, _) in methods() {
            for &workers in &workers {
                let params = Params::new().with("work", work).with("workers", workers);
                let rounds = supports(method, workers).map(|()| Rounds::Calibrated { first: 1 });
                plan.add(method, params, rounds);
            }
        }
    }
}

fn workers(asked: Option<Vec<usize>>) -> Vec<usize> {
    asked.unwrap_or_else(|| if host::cpus() > 1 { vec![1, 2] } else { vec![1] })
}

fn supports(method: &str, workers: usize) -> Result<(), Skip> {
    match method {
        "go" => programs::GOROUTINES.supports(),
        ARGOBOTS => programs::ARGOBOTS_THREADS.supports(),
        "sequential" if workers != 1 => Err(Skip::new("without forks there is one worker")),
        _ => TOKIO
            .iter()
            .find(|(name, _)| *name == method)
            .map_or(Ok(()), |(_, kind)| kind.supports(workers)),
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let (_, run) = methods().find(|(name, _)| *name == method)?;
    let work: Work = params.choice("work")?;
    let workers = params.size("workers").filter(|&workers| workers > 0)?;
    Some(Box::new(move |effort| {
        work.prepare();
        let mut clock = WorkClock::new(effort);
        run(work, workers, &mut clock)?;
        clock.sample()
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kit::Effort;

    /// Every method computes every work, with one and two workers. The works are smaller.
    #[test]
    fn every_method_does_every_work() {
        let effort = Effort { rounds: 2, limit: Duration::from_secs(60) };
        for (name, run) in methods() {
            for workers in [1, 2] {
                if let Err(skip) = supports(name, workers) {
                    println!("skipped: {name} with {workers} workers: {skip}");
                    continue;
                }
                for work in work::SMALL {
                    work.prepare();
                    let mut clock = WorkClock::new(effort);
                    run(work, workers, &mut clock)
                        .unwrap_or_else(|failure| panic!("{name}, {work:?}, {workers}: {failure}"));
                    let sample = clock.sample().expect("a sample");
                    assert_eq!(sample.rounds, 2, "{name}");
                    assert!(sample.elapsed > Duration::ZERO, "{name}");
                    assert_eq!(sample.readings[1].stat.as_deref(), Some("peak-memory"));
                }
            }
        }
    }
}
