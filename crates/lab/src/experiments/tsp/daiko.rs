//! Fibers and their mutex. One worker corresponds to P2's baseline: all threads on one CPU.
//!
//! The runtime has as many CPUs as workers. With more, a spare worker, which takes unstarted fibers
//! from a worker that runs one fiber for long, would use an additional CPU.

use std::sync::Arc;

use daiko::sync::Mutex;
use daiko::{Builder, JoinHandle, Runtime, RuntimeBuilder, SpawnError};

use super::cities::Cities;
use super::job::{Counts, Prune, SearchResult, Searches, TspJob};
use super::method::Searcher;
use super::search::{Tour, TourStart, starts};
use super::shared::{Lock, SearchShared};
use crate::kit::{Failure, host, processes};

pub(super) const METHOD: Searcher =
    Searcher { name: "daiko", shares: true, workers: true, run: by_threads };

/// The same, with fibers that borrow their thread-locals, as those of processes do.
pub(super) const BORROWED: Searcher =
    Searcher { name: "daiko-borrowed", shares: true, workers: true, run: by_borrowers };

/// The same, with processes as workers.
pub(super) const PROCESSES: Searcher =
    Searcher { name: processes::METHOD, shares: true, workers: true, run: by_processes };

fn by_threads(job: &TspJob, workers: usize) -> Result<Searches, Failure> {
    run(job, workers, Runtime::builder().workers(workers))
}

fn by_borrowers(job: &TspJob, workers: usize) -> Result<Searches, Failure> {
    // SAFETY: the fibers use no thread-local but those of the runtime and the allocator, and keep
    // nothing of these across a suspension.
    run(job, workers, unsafe { Runtime::builder().workers(workers).borrowed() })
}

fn by_processes(job: &TspJob, workers: usize) -> Result<Searches, Failure> {
    // SAFETY: all data that fibers share is in `SearchShared`, on the heap, under a lock of daiko,
    // and nothing is in a thread's frame. They change no static and map no memory.
    run(job, workers, unsafe { Runtime::builder().process_workers(workers) })
}

fn run(job: &TspJob, workers: usize, builder: RuntimeBuilder) -> Result<Searches, Failure> {
    let cpus = host::cpu_list().into_iter().take(workers);
    let runtime = builder.cpus(cpus).build()?;
    let job = job.clone();
    runtime.run(move || job.rounds(|bound| solve(&job.cities, job.prune, bound)))
}

/// Finds the shortest tour below `bound`. Called by a fiber.
pub(super) fn solve(cities: &Cities, prune: Prune, bound: u32) -> Result<SearchResult, Failure> {
    let shared = Arc::new(SearchShared::new(cities, prune, bound));
    let fibers: Result<Vec<_>, _> =
        starts(cities.count()).map(|start| spawn(&shared, start)).collect();
    // The fibers spawned so far end soon, as their results are not needed.
    let fibers = fibers.inspect_err(|_| shared.give_up())?;
    let mut counts = Counts::default();
    for fiber in fibers {
        counts += fiber.join()?;
    }
    Ok(SearchResult { best: shared.best(), counts })
}

fn spawn(
    shared: &Arc<SearchShared<Mutex<Tour>>>,
    start: TourStart,
) -> Result<JoinHandle<Counts>, SpawnError> {
    let shared = Arc::clone(shared);
    Builder::new().spawn(move || shared.search(start))
}

impl Lock for Mutex<Tour> {
    fn new(best: Tour) -> Self {
        Self::new(best)
    }

    #[inline]
    fn with<R>(&self, look: impl FnOnce(&mut Tour) -> R) -> R {
        look(&mut self.lock().expect("no searcher panics"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::tsp::optimum;

    #[test]
    fn fibers_find_the_shortest_tour() {
        for (workers, prune) in
            [(1, Prune::Relaxed), (1, Prune::Locked), (2, Prune::Relaxed), (2, Prune::Locked)]
        {
            let cities = Cities::fixed(7);
            let shortest = optimum::length(&cities);
            let runtime = Runtime::builder().workers(workers).build().expect("a runtime");
            let found = runtime.run(move || solve(&cities, prune, u32::MAX)).expect("a tour");
            assert_eq!(found.best.length, shortest, "{workers} workers, {prune:?}");
            assert!(found.counts.nodes > 0 && found.counts.locks > 0);
        }
    }
}
