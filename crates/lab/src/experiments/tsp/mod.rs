//! A problem solved by many threads that seldom lock, or often: the travelling
//! salesman on a complete graph, P2's application.
//!
//! 1. The distances are fixed: those of `n` cities are those of `n - 1` and of
//!    one city more.
//! 2. The search is depth first. A path is ruled out when it is as long as the
//!    best tour so far; no better bound is used, so that there is much to do.
//! 3. There is one thread for each pair of cities that a tour can go to first,
//!    `(n - 1) (n - 2)` in all; P2 does not tell how it divides the search. The
//!    main thread creates all of them, then joins all. `sequential` searches the
//!    same subtrees one after another.
//! 4. The best tour lies under a mutex, which is locked for each complete tour
//!    that looks better.
//!
//! A round is one search. Its result is checked against another algorithm's, which
//! runs beforehand.
//!
//! | parameter | |
//! |---|---|
//! | `cities` | `n` |
//! | `workers` | of a library that has workers |
//! | `prune` | `relaxed`: paths are compared with a copy of the best length outside the lock. `locked`: the lock is taken for each comparison |
//!
//! Beside the time of a search there are two counts, also per search, where `stat`
//! is `nodes`: paths that were followed, and `locks`: calls of the lock. Both depend
//! on who finds a good tour first, and so vary where threads run at the same time.

mod cities;
mod daiko;
mod job;
mod nptl;
mod optimum;
mod search;
mod sequential;
mod set;
mod shared;

use std::ops::RangeInclusive;

use self::{
    cities::{Cities, MOST},
    job::{Job, Timed},
    shared::Prune,
};
use crate::kit::{
    Case, Effort, Experiment, Failure, List, Options, Params, Planned, Reading, Rounds, Sample,
    Unit, host, processes,
};

/// With fewer, creating the threads is all there is to measure.
const FEWEST: usize = 6;
const CITIES: RangeInclusive<usize> = FEWEST..=MOST;
const MOST_QUICK: usize = 12;
/// Beyond, locking for each comparison takes many seconds.
const MOST_LOCKED: usize = 12;
const MOST_LOCKED_QUICK: usize = 11;

/// The methods, in the order of tables.
const METHODS: [Method; 4] = [sequential::METHOD, nptl::METHOD, daiko::METHOD, daiko::PROCESSES];

/// A way to have threads, or none.
struct Method {
    name: &'static str,
    /// Whether threads share the best tour, and so lock it: a point for each
    /// [`Prune`].
    shares: bool,
    /// Whether it has workers: a point for each number of them.
    workers: bool,
    /// Does a job, with so many workers.
    run: fn(&Job, usize) -> Result<Timed, Failure>,
}

/// The travelling salesman of P2.
pub struct Tsp;

impl Experiment for Tsp {
    fn name(&self) -> &'static str {
        "tsp"
    }

    fn about(&self) -> &'static str {
        "the travelling salesman of P2: many threads search, and share the best tour under a lock"
    }

    fn methods(&self) -> Vec<&'static str> {
        METHODS.iter().map(|method| method.name).collect()
    }

    fn takes(&self, list: List) -> bool {
        list == List::Workers
    }

    fn plan(&self, options: &Options) -> Vec<Planned> {
        let most = if options.quick { MOST_QUICK } else { MOST };
        let mut plan = Vec::new();
        for cities in FEWEST..=most {
            for method in METHODS.iter().filter(|method| options.wants(method.name)) {
                let points = points(method, cities, options).into_iter();
                plan.extend(points.map(|params| planned(method, params)));
            }
        }
        plan
    }

    fn sample(&self, case: &Case, effort: Effort) -> Result<Sample, Failure> {
        let method = const { &METHODS }.iter().find(|method| method.name == case.method);
        let found = method.and_then(|method| Some((method, method.job(&case.params, effort)?)));
        let Some((method, (job, workers))) = found else {
            return Err(Failure::Broken(format!("{case}: there is no such point")));
        };
        let timed = (method.run)(&job, workers)?;
        let readings = method.readings(&timed);
        Ok(Sample { rounds: timed.rounds, elapsed: timed.elapsed, readings })
    }
}

impl Method {
    /// The job that `params` tell, and how many workers do it.
    fn job(&self, params: &Params, effort: Effort) -> Option<(Job, usize)> {
        let number = |key| params.number(key).map(|number| number as usize);
        let cities = number("cities").filter(|cities| CITIES.contains(cities))?;
        let prune = match self.shares {
            true => Prune::from_name(params.text("prune")?)?,
            false => Prune::Relaxed,
        };
        let workers = match self.workers {
            true => number("workers").filter(|&workers| workers > 0)?,
            false => 1,
        };
        Some((Job { cities: Cities::fixed(cities), prune, effort }, workers))
    }

    /// The values of `timed`, per search.
    fn readings(&self, timed: &Timed) -> Vec<Reading> {
        let each = |sum: f64| sum / timed.rounds as f64;
        let count = |stat, sum: u64| Reading::stat(Unit::Count, stat, each(sum as f64));
        let mut readings = vec![
            Reading::new(Unit::Nanoseconds, each(timed.elapsed.as_nanos() as f64)),
            count("nodes", timed.counts.nodes),
        ];
        if self.shares {
            readings.push(count("locks", timed.counts.locks));
        }
        readings
    }
}

fn planned(method: &Method, params: Params) -> Planned {
    let case = Case { experiment: "tsp".into(), method: method.name.into(), params };
    let rounds = processes::supports(method.name).map(|()| Rounds::Calibrated { first: 1 });
    Planned { case, rounds }
}

/// The points of a method with so many cities.
fn points(method: &Method, cities: usize, options: &Options) -> Vec<Params> {
    let mut points = Vec::new();
    for workers in only_if(method.workers, workers(options)) {
        for prune in only_if(method.shares, prunes(cities, options.quick)) {
            points.push(params(cities, workers, prune));
        }
    }
    points
}

/// What a parameter varies over, for a method that may not have it.
fn only_if<T>(has: bool, values: Vec<T>) -> Vec<Option<T>> {
    if has { values.into_iter().map(Some).collect() } else { vec![None] }
}

fn params(cities: usize, workers: Option<usize>, prune: Option<Prune>) -> Params {
    let mut params = Params::new().with("cities", cities);
    if let Some(workers) = workers {
        params = params.with("workers", workers);
    }
    if let Some(prune) = prune {
        params = params.with("prune", prune.name());
    }
    params
}

fn prunes(cities: usize, quick: bool) -> Vec<Prune> {
    let most = if quick { MOST_LOCKED_QUICK } else { MOST_LOCKED };
    let mut list = Prune::ALL.to_vec();
    list.retain(|&prune| prune == Prune::Relaxed || cities <= most);
    list
}

/// One, as libraries have that put all threads on one CPU, and one per CPU.
fn workers(options: &Options) -> Vec<usize> {
    if let Some(asked) = &options.workers {
        return asked.clone();
    }
    let mut list = vec![1, host::cpus()];
    list.dedup();
    list
}

#[cfg(test)]
mod tests;
