//! Whole scenarios under Shuttle: more participants, and more steps of each, than loom can take.
//!
//! Shuttle runs one thread at a time and chooses at each atomic who goes on: at random, or by
//! priorities that change at few steps (PCT). It knows no orderings but sequential consistency, so it
//! finds wrong steps, and loom wrong orderings. It prints what fails, as a schedule that
//! `shuttle::replay` runs again.
//!
//! There is no time either: who has a deadline, or is cancelled, loses patience after so many looks.

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

use crate::list::Unlinked;
use crate::modelled::Waiters;
use crate::sync::{AtomicBool, AtomicU32, Ordering};
use crate::wait::Node;

/// As many executions with each scheduler, unless `DAIKO_SHUTTLE_ITERATIONS` says otherwise.
const ITERATIONS: usize = 2000;
/// So often PCT changes priorities in an execution: most faults need few changes.
const DEPTH: usize = 4;
/// Who has no patience has it for less than so many looks.
const LOOKS: usize = 12;

/// Executes `scenario` again and again, each time by other choices.
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

/// One of `0..n`.
fn below(n: usize) -> usize {
    thread_rng().gen_range(0..n)
}

/// What ends a wait beside a wake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Endless,
    Deadline,
    Cancel,
}

/// How a wait has ended.
enum Ended {
    Claimed(u8),
    TimedOut,
    Cancelled,
}

impl Patience {
    fn any() -> Self {
        [Patience::Endless, Patience::Deadline, Patience::Cancel][below(3)]
    }

    /// Whether the wake comes in time.
    fn sleep<const N: usize>(self, waiters: &Waiters<N>, who: usize) -> bool {
        if self == Patience::Endless {
            waiters.sleep(who);
            return true;
        }
        (0..below(LOOKS)).any(|_| {
            thread::yield_now();
            waiters.is_woken(who)
        })
    }
}

/// The wait of `who`, whose `node` is in the queue of an object: it is left by `leave`, and a wake that
/// finds him cancelled goes to somebody else by `give_way`.
fn wait<W: Copy, const N: usize>(
    waiters: &Waiters<N>,
    who: usize,
    node: &Node<W>,
    patience: Patience,
    leave: impl FnOnce(NonNull<Node<W>>) -> Unlinked,
    give_way: impl FnOnce(u8),
) -> Ended {
    if patience.sleep(waiters, who) {
        return Ended::Claimed(Waiters::<N>::note(node));
    }
    let gone = leave(NonNull::from(node)) == Unlinked::AlreadyGone;
    let note = gone.then(|| waiters.wait(who, node));
    if patience == Patience::Cancel {
        if let Some(note) = note {
            give_way(note);
        }
        return Ended::Cancelled;
    }
    note.map_or(Ended::TimedOut, Ended::Claimed)
}

/// A place for so many at a time.
struct Room {
    places: u32,
    taken: AtomicU32,
    /// Somebody has been there at all.
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
