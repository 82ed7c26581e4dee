//! Cost of a message, for seven shapes of channels and a select, on one CPU and on two.
//!
//! - `shape=unbounded-1-1`, `unbounded-4-4`: a channel without a bound, from one producer to one
//!   consumer, and from four to four.
//! - `bounded-1-1`, `bounded-4-4`: one that holds 128 messages.
//! - `single-1-1`, `single-4-4`: one that holds one message.
//! - `rendezvous-1-1`: one that holds none.
//! - `select`: one consumer that selects among two channels without a bound, each with a producer.
//!
//! Producers send numbers by a plain loop, and drop their end; consumers receive until the channel
//! is closed. The sum of all messages is checked. The time of a message is that from before the
//! first thread starts until all have ended, divided by their number.
//!
//! `daiko` has fibers on so many workers, `go` goroutines on so many threads, `tokio` and
//! `tokio-current` tasks, `may` coroutines. `crossbeam-channel`, `flume`, `kanal` and `std-mpsc`
//! have kernel threads that may run on so many CPUs.

mod coroutines;
mod fibers;
mod figures;
mod goroutines;
mod load;
mod tasks;
mod threads;

use std::time::Duration;

use self::load::{Load, Shape};
use crate::kit::coroutines::MAY;
use crate::kit::tasks::TOKIO;
use crate::kit::{
    Choice, Effort, Experiment, Failure, List, Measure, Params, Plan, Rounds, Sample, Skip, host,
};

/// Cost of a message.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "messages by channels of seven shapes, and by select, on one CPU and on two",
    sizes: &["workers"],
    lists: &[List::Workers],
    methods: || METHODS.iter().map(|(name, _)| *name).collect(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

/// Sends messages through channels, and returns their sum and the time.
type Runner = fn(&Load) -> Result<(u64, Duration), Failure>;

const METHODS: [(&str, Runner); 9] = [
    ("daiko", fibers::run),
    ("crossbeam-channel", threads::run::<threads::Crossbeam>),
    ("flume", threads::run::<threads::Flume>),
    ("kanal", threads::run::<threads::Kanal>),
    (TOKIO[0].0, tasks::run_multi_thread),
    (TOKIO[1].0, tasks::run_current_thread),
    (MAY, coroutines::run),
    ("std-mpsc", threads::run::<threads::Mpsc>),
    ("go", goroutines::run),
];

fn cases(plan: &mut Plan<'_>) {
    let own = if host::cpus() > 1 { vec![1, 2] } else { vec![1] };
    let workers = plan.options.workers.clone().unwrap_or(own);
    for shape in Shape::all() {
        for (method, _) in METHODS {
            for &workers in &workers {
                let params = Params::new().with("shape", shape).with("workers", workers);
                let rounds = supports(method, shape, workers);
                plan.add(method, params, rounds.map(|()| Rounds::Calibrated { first: 1000 }));
            }
        }
    }
}

/// Fails with the reason to skip a case.
fn supports(method: &str, shape: Shape, workers: usize) -> Result<(), Skip> {
    let no = |reason: &str| Err(Skip::new(reason));
    match (method, shape) {
        ("go", _) if shape.capacity().is_none() => no("Go has no unbounded channel"),
        ("go", _) => goroutines::CHANNELS.supports(),
        (MAY, _) if shape.capacity().is_some() => no("its channels have no bound"),
        ("tokio" | "tokio-current", Shape::Rendezvous) => no("tokio has no rendezvous channel"),
        ("tokio" | "tokio-current" | "std-mpsc", _) if shape.ends() > 1 => {
            no("the channel has one consumer")
        }
        ("tokio-current", _) => TOKIO[1].1.supports(workers),
        ("kanal" | "std-mpsc" | "flume", Shape::Select) => no("it has no select in its main API"),
        ("crossbeam-channel" | "flume" | "kanal" | "std-mpsc", _) if workers > host::cpus() => {
            no("kernel threads are measured on the allowed CPUs only")
        }
        _ => Ok(()),
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let (_, run) = METHODS.into_iter().find(|(name, _)| *name == method)?;
    let shape: Shape = params.choice("shape")?;
    let workers = params.size("workers").filter(|&workers| workers > 0)?;
    Some(Box::new(move |effort| sample(run, shape, workers, effort)))
}

fn sample(run: Runner, shape: Shape, workers: usize, effort: Effort) -> Result<Sample, Failure> {
    let load = Load::new(shape, workers, effort.rounds);
    let (sum, elapsed) = run(&load)?;
    if sum != load.sum() {
        let expected = load.sum();
        return Err(Failure::Broken(format!("the sum of the messages is {sum}, not {expected}")));
    }
    Ok(Sample::timed(load.messages(), load.messages(), elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_arrives_by_every_method_and_shape() {
        let effort = Effort { rounds: 1000, limit: Duration::from_secs(60) };
        for (name, run) in METHODS {
            for shape in Shape::all() {
                for workers in [1, 2] {
                    if let Err(skip) = supports(name, shape, workers) {
                        println!("skipped: {name} {shape:?} {workers}: {skip}");
                        continue;
                    }
                    // In a thread of its own, as threads are bound.
                    let sample = std::thread::spawn(move || sample(run, shape, workers, effort));
                    let sample = sample.join().expect("no panic").unwrap_or_else(|failure| {
                        panic!("{name} {shape:?} {workers}: {failure}");
                    });
                    assert_eq!(sample.rounds, 1000, "{name} {shape:?}");
                }
            }
        }
    }

    #[test]
    fn a_lost_message_is_found() {
        let lossy: Runner = |load| Ok((load.sum() - 1, Duration::from_secs(1)));
        let effort = Effort { rounds: 10, limit: Duration::ZERO };
        assert!(sample(lossy, Shape::Bounded1, 1, effort).is_err());
    }
}
