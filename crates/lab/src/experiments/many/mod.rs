//! A million threads: started, woken, joined, and asleep.
//!
//! One worker. `state=parked`: `start` is the time from the first start until the last of
//! `threads` threads has suspended, `wake` that until all have been woken and have ended, `join`
//! that of the joins, each divided by `threads`; `cpu` is the CPU time of all three. `memory` is
//! the growth of the process while all are suspended. `state=asleep`: each thread sleeps once, for
//! half a second to a whole one; `cpu` is the CPU time from the first start to the last join, and
//! `time` the time.
//!
//! - `daiko`, `daiko-borrowed`: fibers that park, on stacks of 64 KiB.
//! - `tokio`, `tokio-current`: tasks that wait for a `Notify` each.
//! - `may`: coroutines that park, on stacks of 32 KiB, which all exist before the first start.
//!   `start` leaves them out; `cpu`, `memory` and the time of `asleep` count them.

mod coroutines;
mod fibers;
mod figures;
mod phases;
mod tasks;

use std::process;
use std::time::Instant;

use daiko_sys::clock;

use crate::kit::coroutines::{MAY, check as check_coroutines};
use crate::kit::free_memory::{self, BORROWED_FIBER, FIBER, available_bytes, resident_bytes};
use crate::kit::tasks::{TOKIO, TokioKind};
use crate::kit::{
    Choice, Experiment, Failure, FiberKind, List, Measure, Params, Plan, Reading, Rounds, Sample,
    Unit,
};

/// A million threads.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "a million threads on one worker: start, wake, join, sleep; time, CPU time and memory",
    sizes: &["threads"],
    lists: &[List::Threads],
    methods: || METHODS.iter().map(|(name, _)| *name).collect(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

#[derive(Clone, Copy, Debug)]
enum Kind {
    Fibers(FiberKind),
    Tasks(TokioKind),
    Coroutines,
}

const METHODS: [(&str, Kind); 5] = [
    ("daiko", Kind::Fibers(FiberKind::Default)),
    ("daiko-borrowed", Kind::Fibers(FiberKind::Borrowed)),
    (TOKIO[0].0, Kind::Tasks(TOKIO[0].1)),
    (TOKIO[1].0, Kind::Tasks(TOKIO[1].1)),
    (MAY, Kind::Coroutines),
];

/// The wait of the threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Parked,
    Asleep,
}

impl Choice for State {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::Parked, "parked"), (Self::Asleep, "asleep")];
}

const THREADS: usize = 1_000_000;
const THREADS_QUICK: usize = 10_000;

/// Plans all points. A round is a thread.
fn cases(plan: &mut Plan<'_>) {
    let own = vec![if plan.options.quick { THREADS_QUICK } else { THREADS }];
    let sizes = plan.options.threads.clone().unwrap_or(own);
    let available = available_bytes();
    for state in State::all() {
        for (method, kind) in METHODS {
            for &threads in &sizes {
                let each = if matches!(kind, Kind::Fibers(FiberKind::Default)) {
                    FIBER
                } else {
                    BORROWED_FIBER
                };
                let room = free_memory::room(threads, each, available).and_then(|()| match kind {
                    Kind::Coroutines => check_coroutines(threads),
                    _ => Ok(()),
                });
                let params = Params::new().with("state", state).with("threads", threads);
                plan.add(method, params, room.map(|()| Rounds::Fixed(threads as u64)));
            }
        }
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let (_, kind) = METHODS.into_iter().find(|(name, _)| *name == method)?;
    let state: State = params.choice("state")?;
    let threads = params.size("threads").filter(|&threads| threads > 0)?;
    Some(Box::new(move |_| match state {
        State::Parked => parked(kind, threads),
        State::Asleep => asleep(kind, threads),
    }))
}

fn parked(kind: Kind, threads: usize) -> Result<Sample, Failure> {
    let before = resident_bytes(process::id())?;
    let (begin, cpu) = (Instant::now(), clock::process_cpu_ns());
    let phases = match kind {
        Kind::Fibers(kind) => fibers::parked(kind, threads)?,
        Kind::Tasks(kind) => tasks::parked(kind, threads)?,
        Kind::Coroutines => coroutines::parked(threads)?,
    };
    let cpu = clock::process_cpu_ns() - cpu;
    let each = |stat, value: f64| Reading::stat(Unit::Nanoseconds, stat, value / threads as f64);
    let times = [("start", phases.start), ("wake", phases.wake), ("join", phases.join)];
    let mut readings: Vec<Reading> =
        times.into_iter().map(|(stat, time)| each(stat, time.as_nanos() as f64)).collect();
    readings.push(each("cpu", cpu as f64));
    let grown = phases.resident.saturating_sub(before) as f64 / threads as f64;
    readings.push(Reading::stat(Unit::Bytes, "memory", grown));
    Ok(Sample { rounds: threads as u64, elapsed: begin.elapsed(), readings })
}

fn asleep(kind: Kind, threads: usize) -> Result<Sample, Failure> {
    let (begin, cpu) = (Instant::now(), clock::process_cpu_ns());
    match kind {
        Kind::Fibers(kind) => fibers::asleep(kind, threads)?,
        Kind::Tasks(kind) => tasks::asleep(kind, threads)?,
        Kind::Coroutines => coroutines::asleep(threads)?,
    }
    let cpu = (clock::process_cpu_ns() - cpu) as f64;
    let elapsed = begin.elapsed();
    let each = |stat, value: f64| Reading::stat(Unit::Nanoseconds, stat, value / threads as f64);
    let readings = vec![each("cpu", cpu), each("time", elapsed.as_nanos() as f64)];
    Ok(Sample { rounds: threads as u64, elapsed, readings })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::phases::{SHORTEST, sleeps};
    use super::*;
    use crate::kit::Effort;

    #[test]
    fn every_method_parks_and_sleeps() {
        let effort = Effort { rounds: 100, limit: Duration::from_secs(60) };
        for (method, _) in METHODS {
            for (state, stats) in [
                (State::Parked, &["start", "wake", "join", "cpu", "memory"][..]),
                (State::Asleep, &["cpu", "time"]),
            ] {
                let params = Params::new().with("state", state).with("threads", 100usize);
                let measure = measure(method, &params).expect("a case");
                let sample =
                    measure(effort).unwrap_or_else(|failure| panic!("{method}: {failure}"));
                let found: Vec<_> =
                    sample.readings.iter().filter_map(|reading| reading.stat.as_deref()).collect();
                assert_eq!(found, stats, "{method}");
                assert_eq!(sample.rounds, 100);
            }
        }
    }

    #[test]
    fn all_sleeps_are_of_the_stated_length() {
        assert!(sleeps(1000).all(|sleep| (SHORTEST..=SHORTEST * 2).contains(&sleep)));
    }
}
