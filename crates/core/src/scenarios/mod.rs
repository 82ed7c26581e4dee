//! Whole scenarios under Shuttle: more participants, and more steps of each, than loom can take.
//!
//! Shuttle runs one thread at a time and chooses at each atomic the thread that goes on: at random,
//! or by priorities that change at few steps (PCT). It knows no orderings but sequential
//! consistency, so it finds wrong steps, and loom wrong orderings. It prints a failure as a
//! schedule that `shuttle::replay` runs again.
//!
//! There is no time either: a thread with a deadline, or that is cancelled, loses patience after a
//! number of looks.

mod channel;
mod mutex;
mod pool;
mod queue;
mod rwlock;
mod select;
mod slab;

use std::env;
use std::ptr::NonNull;

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};

use crate::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::list::Unlinked;
use crate::modelled::Waiters;
use crate::wait::Node;

/// Number of executions with each scheduler, unless `DAIKO_SHUTTLE_ITERATIONS` is set.
const ITERATIONS: usize = 2000;
/// Number of times PCT changes priorities in an execution: most faults need few changes.
const DEPTH: usize = 4;
/// Upper bound of the looks after which a thread loses patience.
const LOOKS: usize = 12;

/// Executes `scenario` again and again, each time with other choices.
fn rehearse(scenario: fn()) {
    let iterations = env::var("DAIKO_SHUTTLE_ITERATIONS");
    let iterations = iterations.map_or(ITERATIONS, |text| text.parse().unwrap());
    let config = || {
        let mut config = Config::new();
        config.silence_warnings = true;
        config
    };
    Runner::new(RandomScheduler::new(iterations), config()).run(scenario);
    Runner::new(PctScheduler::new(DEPTH, iterations), config()).run(scenario);
}

fn below(n: usize) -> usize {
    thread_rng().gen_range(0..n)
}

/// The event other than a wake that ends a wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Endless,
    Deadline,
    Cancel,
}

enum Ended {
    Claimed(u8),
    TimedOut,
    Cancelled,
}

impl Patience {
    fn any() -> Self {
        [Patience::Endless, Patience::Deadline, Patience::Cancel][below(3)]
    }

    /// Sleeps; returns true if the wake comes in time.
    fn sleep<const N: usize>(self, waiters: &Waiters<N>, actor: usize) -> bool {
        if self == Patience::Endless {
            waiters.sleep(actor);
            return true;
        }
        (0..below(LOOKS)).any(|_| {
            thread::yield_now();
            waiters.is_woken(actor)
        })
    }
}

/// Waits for a wake of `actor`, with `node` in the queue of an object. `leave` leaves the queue.
/// `give_way` passes on a wake that finds the waiter cancelled.
fn wait<W: Copy, const N: usize>(
    waiters: &Waiters<N>,
    actor: usize,
    node: &Node<W>,
    patience: Patience,
    leave: impl FnOnce(NonNull<Node<W>>) -> Unlinked,
    give_way: impl FnOnce(u8),
) -> Ended {
    if patience.sleep(waiters, actor) {
        return Ended::Claimed(Waiters::<N>::note(node));
    }
    let gone = leave(NonNull::from(node)) == Unlinked::AlreadyGone;
    let note = gone.then(|| waiters.wait(actor, node));
    if patience == Patience::Cancel {
        if let Some(note) = note {
            give_way(note);
        }
        return Ended::Cancelled;
    }
    note.map_or(Ended::TimedOut, Ended::Claimed)
}

/// A place for a limited number of threads at a time.
struct Room {
    places: u32,
    taken: AtomicU32,
    /// True if a thread has ever been there.
    used: AtomicBool,
}

impl Room {
    fn new(places: u32) -> Self {
        Self { places, taken: AtomicU32::new(0), used: AtomicBool::new(false) }
    }

    /// Enters with `count` places, stays for a step, and leaves.
    fn visit<R>(&self, count: u32, stay: impl FnOnce() -> R) -> R {
        let taken = self.taken.fetch_add(count, Ordering::Relaxed) + count;
        assert!(taken <= self.places, "{taken} are inside, of {}", self.places);
        self.used.store(true, Ordering::Relaxed);
        let stayed = stay();
        self.taken.fetch_sub(count, Ordering::Relaxed);
        stayed
    }
}
