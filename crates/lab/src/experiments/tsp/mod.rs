//! A problem solved by many threads that lock seldom, or often: the travelling salesman on a
//! complete graph, P2's application.
//!
//! 1. The distances are fixed: those of `n` cities are those of `n - 1` cities, plus one more city.
//! 2. The search is depth first. A path is ruled out when it is as long as the best tour so far; no
//!    better bound is used, so that there is much work.
//! 3. There is one thread for each pair of cities that a tour can visit first, `(n - 1) (n - 2)` in
//!    all; P2 does not state how it divides the search. The main thread creates all of them, then
//!    joins all. `sequential` searches the same subtrees one after another.
//! 4. The best tour is protected by a mutex, which is locked for each complete tour that looks
//!    better.
//!
//! The fibers of `daiko` are of the default kind. Those of `daiko-borrowed` borrow thread-locals of
//! their worker, as do those of `daiko-processes`, which are compared with them.
//!
//! A round is one search. Its result is checked against that of another algorithm, which runs
//! beforehand.
//!
//! | parameter | |
//! |---|---|
//! | `cities` | `n` |
//! | `workers` | of a library that has workers |
//! | `prune` | `relaxed`: paths are compared with a copy of the best length outside the lock |
//! | | `locked`: the lock is taken for each comparison |
//!
//! Besides the time of a search there are two counts per search, with `stat` as `nodes`, the paths
//! that were followed, and `locks`, the calls of the lock. Both depend on which thread first finds
//! a good tour, and so vary where threads run at the same time.

mod cities;
mod daiko;
mod figures;
mod job;
mod method;
mod nptl;
mod optimum;
mod published;
mod search;
mod sequential;
mod set;
mod shared;

use self::cities::MOST;
use self::job::Prune;
use self::method::Searcher;
use crate::kit::{
    Choice, Experiment, List, Measure, Options, Params, Plan, Rounds, host, processes,
};

/// Smallest number of cities. With fewer, only the creation of the threads would be measured.
const FEWEST: usize = 6;
const MOST_QUICK: usize = 12;
/// Largest number of cities with a lock for each comparison. More take many seconds.
const MOST_LOCKED: usize = 12;
const MOST_LOCKED_QUICK: usize = 11;

/// The methods, in the order of tables.
const METHODS: [Searcher; 5] =
    [sequential::METHOD, nptl::METHOD, daiko::METHOD, daiko::BORROWED, daiko::PROCESSES];

/// The travelling salesman of P2.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: published::NAME,
    about: "the travelling salesman of P2: many threads search, and share the best tour under a lock",
    sizes: &["cities"],
    lists: &[List::Workers],
    methods: || METHODS.iter().map(|method| method.name).collect(),
    cases,
    measure,
    published: published::points,
    sections: figures::sections,
};

fn cases(plan: &mut Plan<'_>) {
    let quick = plan.options.quick;
    for cities in FEWEST..=if quick { MOST_QUICK } else { MOST } {
        for method in METHODS {
            for workers in only_if(method.workers, workers(plan.options)) {
                for prune in only_if(method.shares, prunes(cities, quick)) {
                    let params = Params::new().with("cities", cities);
                    let params = params.with_some("workers", workers).with_some("prune", prune);
                    let rounds = processes::supports(method.name);
                    plan.add(method.name, params, rounds.map(|()| Rounds::Calibrated { first: 1 }));
                }
            }
        }
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let method = METHODS.into_iter().find(|known| known.name == method)?;
    let cities = params.size("cities").filter(|cities| (FEWEST..=MOST).contains(cities))?;
    let prune = if method.shares { params.choice("prune")? } else { Prune::Relaxed };
    let workers = match method.workers {
        true => params.size("workers").filter(|&workers| workers > 0)?,
        false => 1,
    };
    Some(Box::new(move |effort| method.sample(cities, prune, workers, effort)))
}

/// Values of a parameter that a method may lack.
fn only_if<T>(has: bool, values: Vec<T>) -> Vec<Option<T>> {
    if has { values.into_iter().map(Some).collect() } else { vec![None] }
}

fn prunes(cities: usize, quick: bool) -> Vec<Prune> {
    let most = if quick { MOST_LOCKED_QUICK } else { MOST_LOCKED };
    Prune::all().filter(|&prune| prune == Prune::Relaxed || cities <= most).collect()
}

/// Numbers of workers: one, as in libraries that keep all threads on one CPU, and one per CPU.
fn workers(options: &Options) -> Vec<usize> {
    options.workers.clone().unwrap_or_else(|| {
        let mut list = vec![1, host::cpus()];
        list.dedup();
        list
    })
}

#[cfg(test)]
mod tests;
