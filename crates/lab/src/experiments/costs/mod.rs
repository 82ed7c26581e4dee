//! Costs of threads, item by item: the tables of P5, table 1 of P2, and items that both left out.
//!
//! A method is a table of `Item`s, one per operation; a method that lacks an item has no point for
//! it. For each item, this list states a round and the value.
//!
//! - `thread-info`: a thread asks 100 times for something of its own, which is a thread-local
//!   (`of=tls`), the value of `pthread_getspecific` (`specific`) or itself (`current`). Time per
//!   question.
//! - `mutex`, `semaphore`: 64 pairs of lock and unlock, or acquire and release, without contention.
//!   Time per pair.
//! - `mutex-lock`, `mutex-unlock`: 256 mutexes are locked, then unlocked; one of the two phases is
//!   timed. Time per call.
//! - `switch-mutex`, `switch-semaphore`, `switch-condvar`: two threads hand the turn to each other,
//!   once each. Time per switch.
//! - `create`, `join`: 100 threads are created and, when they have run, joined; one of the two
//!   phases is timed. Time per thread.
//! - `create-join`: one thread is created and joined. Time per round.
//! - `errand`: a thread asks for the priority of its kernel thread, which the thread of an
//!   unmodified program on Daiko's workers has to go to and return from. Time per call.
//! - `fork-join`: 10,000 threads are created, then all are joined. Time per thread.
//! - `yield`: two threads yield to each other, once each. Time per yield.
//! - `mutex-contended`: one of `threads` threads that contend for a mutex acquires it. Time per
//!   acquisition, and the worst wait (`stat=max`).
//! - `rwlock-contended`: one of `threads` threads that contend for a lock writes; in 19 of 20 turns
//!   a thread only reads. Values as for `mutex-contended`.
//! - `channel`: a message from one thread to another, by `kind=rendezvous`, `bounded` (to 128
//!   messages) or `unbounded`. Time per message.
//! - `sleep-lateness`: a thread sleeps for 20 µs (`state=polling`) or 5 ms (`parked`), while
//!   `timers` other threads wait with timeouts of an hour and more. How late it is resumed: the
//!   median, and the worst (`stat=max`).
//! - `place-follow`: 128 decisions where a migratable fiber that waited for a socket continues.
//!   Time per decision.
//! - `place-pair`: 16 fibers of both classes share a worker, and all of them yield that come before
//!   the first has its next turn, `fiber=pinned` or `mover`. Another worker, which runs as
//!   many fibers, for a µs or two each, is treated as a sibling (`pairing=on`) or not (`off`). Time
//!   per switch; the difference of the two is the cost of the choice.
//! - `place-stuck`: a fiber blocks one of two workers. Time from the report of that until 300 more
//!   fibers have been created, all live at the same time, and have ended.
//!
//! `daiko` measures fibers of the default kind, `daiko-borrowed` those that borrow thread-locals of
//! their worker, as do those of `daiko-processes`. `daiko-borrowed-mover` and `daiko-own-mover`
//! measure fibers that may move, and borrow thread-locals or have their own, where one worker
//! suffices. `c-nptl` and `dropin` measure one program in C that calls the C library, as it is and
//! on one of Daiko's workers.
//!
//! Threads that are created do nothing else. The first round of a sample is not timed, so the timed
//! rounds find the stacks and other objects that a method keeps for reuse. All methods measure from
//! inside: in a POSIX thread, a tokio task, a fiber. The mutexes of `semop` are System V
//! semaphores, which P2 uses between its processes. Contended locks and channels use all CPUs, all
//! other items one worker or one CPU.
//!
//! Code common to all methods is written once: `locks` and `threads` are the interface of a method,
//! and `calls`, `switch`, `create`, `turn`, `info`, `crowd`, `channel` and `sleep` measure it. Only
//! code that awaits is written again, for tokio.

mod blocking;
mod calls;
mod channel;
mod create;
mod crossbeam_channel;
mod crowd;
mod daiko;
mod figures;
mod info;
mod item;
mod laps;
mod locks;
mod nptl;
mod parking_lot;
mod place;
mod posix;
mod posix_figure;
mod published;
mod semop;
mod sleep;
mod sleep_figure;
mod std_mpsc;
mod switch;
mod threads;
mod tokio;
mod turn;

use self::item::{CostMethod, Item, NAMES, SampleRun};
use crate::kit::{
    Baseline, Experiment, List, Measure, Options, Params, Plan, Reach, Results, Rounds, Section,
    processes,
};

/// The methods, in the order of tables.
const METHODS: [CostMethod; 13] = [
    nptl::METHOD,
    posix::NATIVE,
    posix::DROPIN,
    parking_lot::METHOD,
    crossbeam_channel::METHOD,
    std_mpsc::METHOD,
    tokio::METHOD,
    daiko::METHOD,
    daiko::BORROWED,
    daiko::BORROWED_MOVERS,
    daiko::MOVERS,
    daiko::PROCESSES,
    semop::METHOD,
];

/// Numbers of threads that contend for a lock.
const CROWDS: [usize; 4] = [2, 10, 100, 1000];
const MOST_QUICK: usize = 100;

/// Numbers of other threads that wait with timeouts while a thread sleeps.
const TIMERS: [usize; 4] = [0, 1000, 100_000, 1_000_000];
const MOST_TIMERS_QUICK: usize = 100_000;

/// Costs of threads, item by item.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: published::NAME,
    about: "costs of threads, after P2 and P5: calls, switches, create and join, contended locks, channels, sleeps",
    sizes: &["threads", "timers"],
    lists: &[List::Threads],
    methods: || METHODS.iter().map(|method| method.name).collect(),
    cases,
    measure,
    published: published::points,
    sections,
};

/// Largest cost of an uncontended mutex for fibers of worker processes.
const MUTEX_PAIR: Reach = Reach {
    operation: "mutex pair",
    item: Some("mutex"),
    baseline: Baseline::Limit("rmw-pair"),
    most: 1.35,
};

fn sections(results: &Results) -> Vec<Section> {
    let own = results.of(published::NAME);
    let tables = [
        figures::p2(&own),
        figures::p5(&own),
        sleep_figure::section(&own),
        posix_figure::section(&own),
    ];
    tables.into_iter().chain([MUTEX_PAIR.section(results, published::NAME)]).flatten().collect()
}

fn cases(plan: &mut Plan<'_>) {
    for (name, first) in NAMES {
        for method in METHODS {
            for item in method.items().filter(|item| item.name == name) {
                for params in points(item, plan.options) {
                    let skip = item.skip(&params);
                    let supported = skip.map_or_else(|| processes::supports(method.name), Err);
                    let rounds = supported.map(|()| Rounds::Calibrated { first });
                    plan.add(method.name, params, rounds);
                }
            }
        }
    }
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    let method = const { &METHODS }.iter().find(|known| known.name == method)?;
    let item = method.items().find(|item| item.is_in(params))?;
    match (item.run, params.size("threads"), params.size("timers")) {
        (SampleRun::Few(within, body), None, None) => {
            Some(Box::new(move |effort| within(body, effort)))
        }
        (SampleRun::Many(run), Some(threads), None) => {
            Some(Box::new(move |effort| run(threads, effort)))
        }
        (SampleRun::Sleeps { length, run, .. }, None, Some(timers)) => {
            Some(Box::new(move |effort| run(length, timers, effort)))
        }
        _ => None,
    }
}

/// The parameters of all points of an item.
fn points(item: &Item, options: &Options) -> Vec<Params> {
    let up_to = |sizes: [usize; 4], most| {
        sizes.into_iter().filter(move |size| !options.quick || *size <= most).collect()
    };
    let each = |key, sizes: Vec<usize>| {
        sizes.into_iter().map(|size| item.params().with(key, size)).collect()
    };
    match item.run {
        SampleRun::Few(..) => vec![item.params()],
        SampleRun::Many(_) => {
            let asked = options.threads.clone();
            each("threads", asked.unwrap_or_else(|| up_to(CROWDS, MOST_QUICK)))
        }
        SampleRun::Sleeps { .. } => each("timers", up_to(TIMERS, MOST_TIMERS_QUICK)),
    }
}

#[cfg(test)]
mod tests;
