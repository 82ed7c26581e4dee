//! P4's tasks on P4's machine, by a model of contention: for hosts whose CPUs are no siblings. All its figures are predictions.
//!
//! # What is assumed
//!
//! 1. **Stations.** A core has issue slots, a divider and fill buffers; both cores share the channels to DRAM and the persistent
//!    memory. Each serves all tasks that are there at once, evenly. Where the tasks of a core are alone, nobody is in
//!    their way.
//! 2. **Tasks** go from station to station; `tasks` says how long each unit of their work takes at each while they are alone, and
//!    where the figures come from: P4's description of its machine and what is published of it. Times vary as those of a
//!    Poisson process do; so the model is exact mean value analysis (`network`).
//! 3. **Hardware threads** of a core are alike and share all of its stations. What a processor splits in halves as soon as
//!    both run (the window of instructions, the store buffer) it does not have.
//! 4. **Time sharing** (`nosmt-2t`) is even and costs nothing: each of two tasks of a hardware thread has half of all time,
//!    with either task of the other core beside it.
//! 5. The CPU task of `nosmt` does the work of two, as in [`smt`](crate::experiments::smt): P4 does not say so.
//!
//! Set 1 alone is modelled: of SPEC CPU and of a library's transactions P4 says nothing that demands could be taken from.
//!
//! # How far it agrees with P4
//!
//! P4's ratios are held out, but for run times with `nosmt`: that its CPU task does the work of two is deduced from these, and with the work of
//! one all six would have the other sign. No other parameter was chosen by any. The report shows them beside each prediction, and a test
//! keeps what is said here, of those that are held out.
//!
//! * Signs: of 24 figures 17 agree, all 12 that compare `cross` with a setting without SMT, 5 of 12 that compare it with `parallel`.
//! * Sizes: run times relative to `cross` are off by 38% (median; 56% at most), throughputs by 17% (28% at most).
//! * Conclusions: pairing gains more with persistent memory in 3 of 3 cases, SMT has more throughput in 6 of 6. That divisions and
//!   products gain more than sums holds in 2 of 4, that `cross` has the most throughput in 3 of 6.
//! * Why it is off: its sums are bound by fill buffers, which makes two of them on a core a bad pair (1.38 where P4 has 1.0), and an IO
//!   task beside one lose what `parallel` keeps. Two products on a core gain more by SMT than P4's do, of whose loops and sizes
//!   nothing is known (1.80 for `nosmt` where P4 has 1.15). And divisions leave the units to whoever writes to DRAM, which P4's do not
//!   (1.36 for `parallel` where P4 has 0.98).

mod experiment;
mod network;
mod tasks;

use std::iter;

use self::network::{Running, rates};
pub use self::{experiment::SmtModel, network::Demand};
use crate::experiments::smt::{Cores, Setting};

/// Hardware threads of the model, by number.
const MACHINE: Cores = Cores([[0, 1], [2, 3]]);
const THREADS_OF_CORE: usize = 2;

/// What a setting is predicted to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Units of all IO tasks together in a nanosecond.
    pub io_rate: f64,
    /// The time of a unit of the work of the CPU tasks, in nanoseconds; with `nosmt`, of two.
    pub cpu_time: f64,
}

/// What `setting` does with IO tasks and CPU tasks of these demands.
///
/// # Examples
/// ```
/// use daiko_lab::experiments::{smt::Setting, smt_model::{Demand, predict}};
/// // Who only waits is in nobody's way.
/// let io = Demand { alone: 100.0, ..Demand::default() };
/// let cpu = Demand { slots: 1.0, ..Demand::default() };
/// assert_eq!(predict(Setting::Cross, io, cpu).cpu_time, 1.0);
/// assert_eq!(predict(Setting::Parallel, io, cpu).cpu_time, 2.0);
/// ```
pub fn predict(setting: Setting, io: Demand, cpu: Demand) -> Prediction {
    let pairs = setting.pairs(&MACHINE);
    let of_pair = |pair: &crate::experiments::smt::Pair| [(pair.io, io), (pair.cpu, cpu)];
    let tasks: Vec<(usize, Demand)> = pairs.iter().flat_map(of_pair).collect();
    let rates = shared_rates(&tasks);
    let io_rate = rates.iter().step_by(2).sum();
    let each = rates.iter().skip(1).step_by(2).map(|rate| setting.work() as f64 / rate);
    Prediction { io_rate, cpu_time: each.sum::<f64>() / pairs.len() as f64 }
}

/// Units of each task in a nanosecond; tasks of one hardware thread take turns.
fn shared_rates(tasks: &[(usize, Demand)]) -> Vec<f64> {
    let courses = courses(tasks);
    let mut sums = vec![0.0; tasks.len()];
    for course in &courses {
        let running = |&index: &usize| {
            let (thread, demand) = tasks[index];
            Running { core: thread / THREADS_OF_CORE, demand }
        };
        let rates = rates(&course.iter().map(running).collect::<Vec<_>>());
        iter::zip(course, rates).for_each(|(&index, rate)| sums[index] += rate);
    }
    sums.iter().map(|sum| sum / courses.len() as f64).collect()
}

/// Who may run at the same time: each choice of one task for each hardware thread that has any.
fn courses(tasks: &[(usize, Demand)]) -> Vec<Vec<usize>> {
    let mut courses = vec![Vec::new()];
    for thread in MACHINE.0.into_iter().flatten() {
        let here: Vec<usize> = (0..tasks.len()).filter(|&index| tasks[index].0 == thread).collect();
        if here.is_empty() {
            continue;
        }
        let with = |course: &Vec<usize>| {
            let course = course.clone();
            here.iter()
                .map(move |&index| [course.as_slice(), &[index]].concat())
                .collect::<Vec<_>>()
        };
        courses = courses.iter().flat_map(with).collect();
    }
    courses
}

#[cfg(test)]
mod tests;
