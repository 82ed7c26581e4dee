//! Predictions for whole settings.

use std::iter;

use super::network::{Demand, Running, rates};
use crate::kit::p4::setting::{Cores, Pair, Setting};

/// Hardware threads of the model, by number.
pub(super) const MACHINE: Cores = Cores([[0, 1], [2, 3]]);
pub(super) const THREADS_OF_CORE: usize = 2;

/// Prediction for a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Units of all IO tasks together per nanosecond.
    pub io_rate: f64,
    /// Time of a unit of the CPU tasks' work in nanoseconds; with `nosmt`, of two units.
    pub cpu_time: f64,
}

/// Predicts `setting` with IO tasks and CPU tasks of these demands.
///
/// # Examples
///
/// ```
/// use daiko_lab::experiments::{smt::Setting, smt_model::{Demand, predict}};
///
/// // A task that only waits delays no other task.
/// let io = Demand { alone: 100.0, ..Demand::default() };
/// let cpu = Demand { slots: 1.0, ..Demand::default() };
/// assert_eq!(predict(Setting::Cross, io, cpu).cpu_time, 1.0);
/// assert_eq!(predict(Setting::Parallel, io, cpu).cpu_time, 2.0);
/// ```
pub fn predict(setting: Setting, io: Demand, cpu: Demand) -> Prediction {
    let pairs = setting.pairs(&MACHINE);
    let of_pair = |pair: &Pair| [(pair.io, io), (pair.cpu, cpu)];
    let tasks: Vec<(usize, Demand)> = pairs.iter().flat_map(of_pair).collect();
    let rates = shared_rates(&tasks);
    let io_rate = rates.iter().step_by(2).sum();
    let each = rates.iter().skip(1).step_by(2).map(|rate| setting.work() as f64 / rate);
    Prediction { io_rate, cpu_time: each.sum::<f64>() / pairs.len() as f64 }
}

/// Units of each task per nanosecond. Tasks of one hardware thread take turns.
pub(super) fn shared_rates(tasks: &[(usize, Demand)]) -> Vec<f64> {
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

/// Sets of tasks that may run at the same time: each choice of one task for each hardware thread
/// that has any.
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
