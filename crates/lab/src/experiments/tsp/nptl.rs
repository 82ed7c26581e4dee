//! POSIX threads and their mutex, by the C library's own calls; the system
//! places the threads.

use std::ffi::c_void;
use std::ptr;

use super::cities::Cities;
use super::job::{Counts, Prune, SearchResult, Searches, TspJob};
use super::method::Searcher;
use super::search::{Tour, TourStart, starts};
use super::shared::{Lock, SearchShared};
use crate::kit::pthread::{Attributes, Pthread, PthreadMutex, broken};
use crate::kit::{Failure, thread_limits};

pub(super) const METHOD: Searcher = Searcher { name: "nptl", shares: true, workers: false, run };

fn run(job: &TspJob, _workers: usize) -> Result<Searches, Failure> {
    job.rounds(|bound| solve(&job.cities, job.prune, bound))
}

/// A thread's part of a search.
struct Part<'a> {
    shared: &'a SearchShared<PthreadMutex<Tour>>,
    start: TourStart,
    /// Counts, written by the thread.
    counts: Counts,
}

/// Finds the shortest tour below `bound`.
pub(super) fn solve(cities: &Cities, prune: Prune, bound: u32) -> Result<SearchResult, Failure> {
    let shared = SearchShared::new(cities, prune, bound);
    let part = |start| Part { shared: &shared, start, counts: Counts::default() };
    let mut parts: Vec<Part<'_>> = starts(cities.count()).map(part).collect();
    search_all(&shared, &mut parts)?;
    let mut counts = Counts::default();
    parts.iter().for_each(|part| counts += part.counts);
    Ok(SearchResult { best: shared.best(), counts })
}

/// Creates a thread for each part, and waits until all have ended.
fn search_all(
    shared: &SearchShared<PthreadMutex<Tour>>,
    parts: &mut [Part<'_>],
) -> Result<(), Failure> {
    let attributes = Attributes::small_stacks().map_err(broken)?;
    let (count, mut refused) = (parts.len(), Ok(()));
    let mut threads = Vec::with_capacity(count);
    for part in parts {
        // SAFETY: `search` expects a part. The parts outlive the joins below, which no path skips,
        // and until then each part belongs to its thread alone. A lock is Sync, and so is the data
        // that they share.
        match unsafe { attributes.create(search, ptr::from_mut(part).cast()) } {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                refused = Err(thread_limits::refused(threads.len(), count, &error));
                shared.give_up();
                break;
            }
        }
    }
    // All threads are joined, even if one of them failed.
    let joined = threads.into_iter().map(Pthread::join).fold(Ok(()), Result::and);
    refused.and(joined.map_err(broken))
}

extern "C" fn search(part: *mut c_void) -> *mut c_void {
    // SAFETY: `search_all` passes a part that outlives this thread, and no other thread accesses
    // it.
    let part = unsafe { &mut *part.cast::<Part<'_>>() };
    part.counts = part.shared.search(part.start);
    ptr::null_mut()
}

impl Lock for PthreadMutex<Tour> {
    fn new(best: Tour) -> Self {
        Self::new(best)
    }

    #[inline]
    fn with<R>(&self, look: impl FnOnce(&mut Tour) -> R) -> R {
        look(&mut self.lock())
    }
}
