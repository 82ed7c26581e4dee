//! Reads and synchronised writes of a file by threads that wait for it.
//!
//! `depth` threads share `rounds` operations on pages of 4096 bytes, each with a place in the file
//! of its own, in random order:
//!
//! - `op=hit`: a read of a page that is in the page cache.
//! - `op=miss`: a read of a page that is on the device only: the pages are dropped before each
//!   sample, and the kernel is told not to read ahead.
//! - `op=fsync`: a write of a page, then `fdatasync`.
//!
//! The file lies in the temporary folder (`TMPDIR`), which has to be on a device. Each page has its
//! number, and the numbers that were read are added up and checked. All threads begin together. The
//! time is that from the first begin to the last end, for each operation; `cpu` is the CPU time of
//! the process.
//!
//! - `daiko`: fibers that call `daiko::fs`, on as many workers as CPUs.
//! - `daiko-pool`: the same without io_uring, so that a pool of threads makes the calls that wait.
//! - `threads`: kernel threads that call `std::fs`.
//! - `tokio-fs`: tasks that seek and read, or write and synchronise, by `tokio::fs`, each with its
//!   own handle.
//! - `tokio-blocking`: tasks that call `std::fs` in `spawn_blocking`, which the documentation of
//!   `tokio::fs` advises for speed.
//! - `fio`: the program of that name, by io_uring: `depth` reads in flight, or as many threads that
//!   write and synchronise. It has its own random order, checks no page, and tells the time in
//!   milliseconds: a limit.

mod fibers;
mod figures;
mod fio;
mod load;
mod tasks;
mod threads;

use std::time::Duration;

use daiko_sys::clock;

use self::load::{Load, Operation};
use crate::kit::{
    Choice, Effort, Experiment, Failure, List, Measure, Params, Plan, Reading, Rounds, Sample,
    Unit, host,
};

/// Reads and synchronised writes of a file.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "threads that wait for a file: pages in the cache, pages on the device, synchronised writes",
    sizes: &["depth"],
    lists: &[List::Threads],
    methods: || METHODS.iter().map(|(name, _)| *name).collect(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

/// Does the operations, and returns the sum of the numbers read and the time; no sum if a program
/// of other authors has done them.
type Runner = fn(&Load) -> Result<(Option<u64>, Duration), Failure>;

const METHODS: [(&str, Runner); 6] = [
    ("daiko", fibers::run),
    ("daiko-pool", fibers::run_by_pool),
    ("threads", threads::run),
    ("tokio-fs", tasks::run_fs),
    ("tokio-blocking", tasks::run_blocking),
    (FIO, fio::run),
];
const FIO: &str = "fio";

const DEPTHS: [usize; 3] = [1, 32, 1000];
const DEPTHS_QUICK: [usize; 2] = [1, 32];

fn cases(plan: &mut Plan<'_>) {
    let quick = plan.options.quick;
    let own = if quick { DEPTHS_QUICK.to_vec() } else { DEPTHS.to_vec() };
    let depths = plan.options.threads.clone().unwrap_or(own);
    for operation in Operation::all() {
        for (method, _) in METHODS {
            for &depth in &depths {
                let params = Params::new().with("op", operation).with("depth", depth);
                let room = load::supports(depth).and_then(|()| match method {
                    FIO => fio::supports(operation.is_read(), depth),
                    _ => Ok(()),
                });
                plan.add(method, params, room.map(|()| Rounds::Fixed(operation.rounds(quick))));
            }
        }
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let (_, run) = METHODS.into_iter().find(|(name, _)| *name == method)?;
    let operation: Operation = params.choice("op")?;
    let depth = params.size("depth").filter(|&depth| depth > 0)?;
    Some(Box::new(move |effort| sample(run, operation, depth, effort)))
}

fn sample(
    run: Runner,
    operation: Operation,
    depth: usize,
    effort: Effort,
) -> Result<Sample, Failure> {
    let load = Load::new(operation, depth, host::cpus(), effort.rounds)?;
    let cpu = clock::process_cpu_ns();
    let (sum, elapsed) = run(&load)?;
    let cpu = (clock::process_cpu_ns() - cpu) as f64 / effort.rounds as f64;
    let mut sample = Sample::timed(effort.rounds, effort.rounds, elapsed);
    if let Some(sum) = sum {
        load.check(sum)?;
        sample.readings.push(Reading::stat(Unit::Nanoseconds, "cpu", cpu));
    }
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_does_every_operation_once() {
        let effort = Effort { rounds: 100, limit: Duration::from_secs(60) };
        if let Err(skip) = load::supports(7) {
            return println!("skipped: {skip}");
        }
        for (name, run) in METHODS {
            if name == FIO
                && let Err(skip) = fio::supports(true, 7)
            {
                println!("skipped: {name}: {skip}");
                continue;
            }
            for operation in Operation::all() {
                let sample = sample(run, operation, 7, effort);
                let sample = sample.unwrap_or_else(|failure| panic!("{name}: {failure}"));
                let readings = if name == FIO { 1 } else { 2 };
                assert_eq!((sample.rounds, sample.readings.len()), (100, readings), "{name}");
            }
        }
    }

    #[test]
    fn a_page_that_was_not_read_is_found() {
        if let Err(skip) = load::supports(1) {
            return println!("skipped: {skip}");
        }
        let effort = Effort { rounds: 10, limit: Duration::ZERO };
        let lazy: Runner = |_| Ok((Some(0), Duration::from_secs(1)));
        for operation in Operation::all() {
            assert!(sample(lazy, operation, 1, effort).is_err(), "{operation:?}");
        }
    }
}
