//! Many threads that contend for one lock, with all CPUs allowed.
//!
//! 1. The lock is held until all threads have asked for it. Releasing it is the start.
//! 2. A thread asks, acquires the lock, reads the clock and counts, releases the lock, works for
//!    about as long as a few clock readings take, and asks again. A mutex protects a plain counter.
//!    A readers-writer lock protects two counters: each thread writes them in every [`WRITES_IN`]th
//!    of its turns and compares them in all other turns.
//! 3. A thread leaves when it finds that the counter has reached the target or that the time is
//!    over. All threads therefore take part until the end, however unfair the lock is.
//! 4. The counter must equal the sum of the counts of all threads; a lock with two holders loses
//!    counts.
//!
//! The value is the time from the start to the last count, divided by the number of acquisitions.
//! The worst wait is the longest time from asking to acquiring. A wait that the end cuts short
//! counts up to the end.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::calls::check_count;
use super::locks::{Pair, TestedMutex, TestedRwLock};
use super::threads::Threads;
use crate::kit::{Effort, Failure, Reading, Sample, Unit};

/// One in this many turns writes.
pub(super) const WRITES_IN: u64 = 20;
/// Steps of work outside the lock, each about a clock cycle.
const OUTSIDE: u32 = 200;

/// Measures many threads that contend for a mutex.
pub(super) fn mutex<T: Threads, M: TestedMutex + Default>(
    threads: usize,
    effort: Effort,
) -> Result<Sample, Failure> {
    crowd::<T, Counter<M>>(threads, effort)
}

/// Measures many threads that contend for a readers-writer lock.
pub(super) fn rwlock<T: Threads, R: TestedRwLock>(
    threads: usize,
    effort: Effort,
) -> Result<Sample, Failure> {
    crowd::<T, RecordedWrites<R>>(threads, effort)
}

/// A lock together with the data that it protects.
trait ContestedPlace: Default + Send + Sync + 'static {
    /// Keeps all visitors out while it exists.
    type Hold<'a>;

    fn hold(&self) -> Self::Hold<'_>;

    /// Acquires the lock for the `turn`th time of a thread.
    fn visit(&self, turn: u64, target: u64) -> Result<Visit, Failure>;

    /// Number of changes recorded in the protected data.
    fn changes(&self) -> u64;
}

/// Outcome of one acquisition of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Visit {
    /// The thread changed the protected data at this time.
    Changed(Instant),
    /// The thread read the protected data at this time.
    Looked(Instant),
    /// The target had been reached; the thread did nothing.
    Over,
}

/// A mutex around a counter.
#[derive(Default)]
struct Counter<M>(M);

impl<M: TestedMutex + Default> ContestedPlace for Counter<M> {
    type Hold<'a> = M::Guard<'a>;

    fn hold(&self) -> M::Guard<'_> {
        self.0.lock()
    }

    #[inline]
    fn visit(&self, _: u64, target: u64) -> Result<Visit, Failure> {
        Ok(count(&mut self.0.lock(), target))
    }

    fn changes(&self) -> u64 {
        *self.0.lock()
    }
}

/// A readers-writer lock around two counters.
#[derive(Default)]
struct RecordedWrites<R>(R);

impl<R: TestedRwLock> ContestedPlace for RecordedWrites<R> {
    type Hold<'a> = R::Write<'a>;

    fn hold(&self) -> R::Write<'_> {
        self.0.write()
    }

    #[inline]
    fn visit(&self, turn: u64, target: u64) -> Result<Visit, Failure> {
        match turn.is_multiple_of(WRITES_IN) {
            true => write(&mut self.0.write(), target),
            false => read(&self.0.read(), target),
        }
    }

    fn changes(&self) -> u64 {
        self.0.read()[0]
    }
}

/// Counts once. The caller holds the mutex.
#[inline]
pub(super) fn count(counter: &mut u64, target: u64) -> Visit {
    if *counter >= target {
        return Visit::Over;
    }
    // The read and the write are separate, so that a second holder in between reads the same value
    // and a count is lost.
    let read = black_box(*counter);
    let now = Instant::now();
    *counter = read + 1;
    Visit::Changed(now)
}

/// Counts once. The caller holds the write lock.
#[inline]
pub(super) fn write(pair: &mut Pair, target: u64) -> Result<Visit, Failure> {
    let [first, second] = black_box(&mut *pair);
    same(*first, *second)?;
    if *first >= target {
        return Ok(Visit::Over);
    }
    *first += 1;
    let now = Instant::now();
    *black_box(second) += 1;
    Ok(Visit::Changed(now))
}

/// Compares the two counters. The caller holds the read lock.
#[inline]
pub(super) fn read(pair: &Pair, target: u64) -> Result<Visit, Failure> {
    let first = black_box(pair)[0];
    let now = Instant::now();
    same(first, black_box(pair)[1])?;
    Ok(if first >= target { Visit::Over } else { Visit::Looked(now) })
}

fn same(first: u64, second: u64) -> Result<(), Failure> {
    if first == second {
        return Ok(());
    }
    Err(Failure::Broken(format!("half of a write was seen: {first} and {second}")))
}

/// State of one run that all threads share.
pub(super) struct CrowdRun {
    threads: usize,
    pub(super) target: u64,
    limit: Duration,
    arrived: AtomicUsize,
    /// Empty until the lock is released for the first time.
    start: OnceLock<Instant>,
}

impl CrowdRun {
    pub(super) fn new(threads: usize, effort: Effort) -> Self {
        let Effort { rounds, limit } = effort;
        let arrived = AtomicUsize::new(0);
        Self { threads, target: rounds, limit, arrived, start: OnceLock::new() }
    }

    /// Whether all threads have asked for the lock, or are about to.
    pub(super) fn assembled(&self) -> bool {
        // Relaxed: the count publishes no other data.
        self.arrived.load(Ordering::Relaxed) == self.threads
    }

    /// Marks the start. The caller releases the lock next.
    pub(super) fn start(&self) {
        self.start.get_or_init(Instant::now);
    }

    fn started(&self) -> Result<Instant, Failure> {
        let early = || Failure::Broken("a lock let a thread in while another held it".into());
        self.start.get().copied().ok_or_else(early)
    }

    /// Combines the `records` of all threads into a sample, given the number of `changes` in the
    /// protected data.
    pub(super) fn outcome(&self, records: &[Record], changes: u64) -> Result<Sample, Failure> {
        let sum = |part: fn(&Record) -> u64| records.iter().map(part).sum::<u64>();
        check_count("changes under a lock", changes, sum(|record| record.changed))?;
        let end = records.iter().filter_map(|record| record.last).max();
        let Some(end) = end.filter(|_| changes > 0) else {
            return Err(Failure::Limit(format!("no round ended within {:?}", self.limit)));
        };
        let elapsed = end - self.started()?;
        let mut sample = Sample::timed(changes, sum(|record| record.had), elapsed);
        let worst = records.iter().map(|record| record.worst_until(end)).max().unwrap_or_default();
        sample.readings.push(Reading::stat(Unit::Nanoseconds, "max", worst.as_nanos() as f64));
        Ok(sample)
    }
}

/// One thread's record of its acquisitions.
pub(super) struct Record {
    had: u64,
    changed: u64,
    worst: Duration,
    last: Option<Instant>,
    /// Time at which the thread asked, while its wait has not ended.
    asked: Option<Instant>,
}

impl Record {
    /// Record of a thread that asks for the lock next.
    pub(super) fn new(run: &CrowdRun) -> Self {
        // Relaxed: see `assembled`.
        run.arrived.fetch_add(1, Ordering::Relaxed);
        Self { had: 0, changed: 0, worst: Duration::ZERO, last: None, asked: None }
    }

    /// Records that the thread asks for the lock now.
    #[inline]
    pub(super) fn ask(&mut self) {
        self.asked = Some(Instant::now());
    }

    /// Records an acquisition and does the work outside the lock. Returns whether to ask again.
    #[inline]
    pub(super) fn enter(&mut self, visit: Visit, run: &CrowdRun) -> Result<bool, Failure> {
        let start = run.started()?;
        // Before the start, all threads wait for those that have not arrived. That wait does not
        // count.
        self.asked = self.asked.max(Some(start));
        let now = match visit {
            Visit::Changed(now) | Visit::Looked(now) => now,
            Visit::Over => return Ok(false),
        };
        self.had += 1;
        self.changed += u64::from(matches!(visit, Visit::Changed(_)));
        self.worst = self.worst_until(now);
        self.last = Some(now);
        self.asked = None;
        work();
        Ok(now.duration_since(start) < run.limit)
    }

    /// The longest wait until `end`.
    fn worst_until(&self, end: Instant) -> Duration {
        let waiting = self.asked.map(|asked| end.saturating_duration_since(asked));
        self.worst.max(waiting.unwrap_or_default())
    }
}

/// Simulates work outside the lock.
#[inline]
fn work() {
    for step in 0..OUTSIDE {
        black_box(step);
    }
}

fn crowd<T: Threads, P: ContestedPlace>(threads: usize, effort: Effort) -> Result<Sample, Failure> {
    let shared = Arc::new((P::default(), CrowdRun::new(threads, effort)));
    let (place, run) = &*shared;
    let hold = place.hold();
    let mut handles = Vec::with_capacity(threads);
    let gathered = gather::<T, P>(&shared, &mut handles);
    run.start();
    drop(hold);
    let records: Vec<Result<Record, Failure>> =
        handles.into_iter().map(|thread| T::join(thread).and_then(|record| record)).collect();
    gathered?;
    let records: Vec<Record> = records.into_iter().collect::<Result<_, _>>()?;
    run.outcome(&records, place.changes())
}

type Handles<T> = Vec<<T as Threads>::Handle<Result<Record, Failure>>>;

/// Creates the threads, and waits until all of them ask for the lock.
fn gather<T: Threads, P: ContestedPlace>(
    shared: &Arc<(P, CrowdRun)>,
    handles: &mut Handles<T>,
) -> Result<(), Failure> {
    let run = &shared.1;
    for index in 0..run.threads {
        let shared = Arc::clone(shared);
        handles.push(T::spawn(index, run.threads, move || attend(&shared.0, &shared.1, index))?);
    }
    while !run.assembled() {
        T::yield_now();
    }
    Ok(())
}

/// Runs thread `index`. The index spreads the writing turns over the threads.
fn attend<P: ContestedPlace>(place: &P, run: &CrowdRun, index: usize) -> Result<Record, Failure> {
    let mut record = Record::new(run);
    for turn in index as u64.. {
        record.ask();
        if !record.enter(place.visit(turn, run.target)?, run)? {
            break;
        }
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::costs::locks::testing::Open;
    use crate::experiments::costs::threads::KernelThreads;

    const EFFORT: Effort = Effort { rounds: 10, limit: Duration::from_secs(60) };

    fn fault<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
        match result {
            Err(Failure::Broken(line)) => line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_mutex_with_two_holders_loses_count() {
        let fault = fault(mutex::<KernelThreads, Open<true>>(2, EFFORT));
        assert!(fault.contains("changes under a lock"), "{fault}");
    }

    #[test]
    fn a_lock_with_two_writers_loses_count() {
        let fault = fault(rwlock::<KernelThreads, Open<true>>(2, EFFORT));
        assert!(fault.contains("changes under a lock"), "{fault}");
    }

    #[test]
    fn an_entry_before_the_start_overlaps_with_another_holder() {
        let run = CrowdRun::new(2, EFFORT);
        let entered = Record::new(&run).enter(Visit::Changed(Instant::now()), &run);
        assert!(fault(entered).contains("while another held it"));
    }

    #[test]
    fn half_of_a_write_is_seen() {
        assert_eq!(fault(read(&[1, 2], 9)), "half of a write was seen: 1 and 2");
        assert_eq!(fault(write(&mut [2, 1], 9)), "half of a write was seen: 2 and 1");
    }

    #[test]
    fn at_the_target_no_visit_changes_the_data() {
        let (mut counter, mut pair) = (4, [4, 4]);
        assert_eq!(count(&mut counter, 4), Visit::Over);
        assert_eq!(write(&mut pair, 4), Ok(Visit::Over));
        assert_eq!(read(&pair, 4), Ok(Visit::Over));
        assert_eq!((counter, pair), (4, [4, 4]));
        assert!(matches!(count(&mut counter, 5), Visit::Changed(_)));
        assert!(matches!(write(&mut pair, 5), Ok(Visit::Changed(_))));
        assert_eq!((counter, pair), (5, [5, 5]));
    }

    #[test]
    fn the_worst_wait_counts_from_the_start_to_the_end() {
        let run = CrowdRun::new(1, EFFORT);
        let mut record = Record::new(&run);
        record.ask();
        run.start();
        let start = run.started().expect("it has started");
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        assert_eq!(record.enter(Visit::Looked(after(5)), &run), Ok(true));
        assert_eq!(record.worst_until(after(100)), Duration::from_millis(5), "it does not wait");
        record.asked = Some(after(6));
        assert_eq!(record.worst_until(after(8)), Duration::from_millis(5));
        assert_eq!(record.worst_until(after(50)), Duration::from_millis(44), "it still waits");
        assert_eq!(record.enter(Visit::Over, &run), Ok(false));
        let outcome = run.outcome(&[record], 0);
        assert!(matches!(outcome, Err(Failure::Limit(_))), "{outcome:?}");
    }
}
