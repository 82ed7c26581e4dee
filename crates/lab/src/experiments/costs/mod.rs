//! What threads cost, item by item: the tables of P5, table 1 of P2, and what they left out.
//!
//! A method is a table of `Item`s, one per thing that it does; a method that
//! lacks an item has no point for it.
//!
//! | item | a round | value |
//! |---|---|---|
//! | `thread-info` | a thread asks 100 times for what is its own: a thread-local (`of=tls`), what `pthread_getspecific` finds (`specific`), itself (`current`) | per question |
//! | `mutex`, `semaphore` | 64 pairs of lock and unlock, acquire and release, that nobody else wants | per pair |
//! | `mutex-lock`, `mutex-unlock` | 256 mutexes are locked, then unlocked; the one or the other is timed | per call |
//! | `switch-mutex`, `switch-semaphore`, `switch-condvar` | two threads hand the turn to each other, once each | per switch |
//! | `create`, `join` | 100 threads are created and, when they have run, joined; the one or the other is timed | per thread |
//! | `create-join` | one thread is created and joined | per round |
//! | `fork-join` | 10,000 threads are created, then all are joined | per thread |
//! | `yield` | two threads yield to each other, once each | per yield |
//! | `mutex-contended` | one of `threads` threads that want one mutex has it | per time that it is had, and the worst wait (`stat=max`) |
//! | `rwlock-contended` | one of `threads` threads that want one lock writes; 19 times of 20 a thread only reads | likewise |
//! | `channel` | a message from one thread to another: `kind=rendezvous`, `bounded` to 128 messages, `unbounded` | per message |
//! | `sleep-lateness` | a thread sleeps, for 20 µs (`state=polling`) or 5 ms (`parked`), while `timers` others wait with timeouts of an hour and more | how late it is resumed: the median, and the worst (`stat=max`) |
//! | `place-follow` | it is decided 128 times where a migratable fiber goes on that has waited for a socket | per decision |
//! | `place-pair` | of 16 fibers of both classes, on one worker, all yield that come before the first has its next turn: `fiber=pinned` or `migratable`. Another worker, which runs as many, a µs or two each, is taken for a sibling (`pairing=on`), or not (`off`) | per hop: their difference is what the choice costs |
//!
//! Threads that are created do nothing else. The first round of a sample is not
//! timed: stacks and what else a method keeps for reuse are there in those that
//! are. All methods do it from inside: a POSIX thread, a tokio task, a fiber. The mutexes of
//! `semop` are System V semaphores, as P2 has them between its processes.
//! Contended locks and channels have all CPUs, all other items one worker, or one CPU.
//!
//! What is the same for all methods is written once: `locks` and `threads` are
//! what a method has to offer, and `calls`, `switch`, `create`, `turn`, `info`,
//! `crowd`, `channel` and `sleep` measure it. Only what has to be awaited is written again,
//! for tokio.

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
mod published;
mod semop;
mod sleep;
mod sleep_figure;
mod std_mpsc;
mod switch;
mod threads;
mod tokio;
mod turn;

use self::item::{CostMethod, Item, KINDS, Run};
use crate::kit::{
    Baseline, Experiment, List, Measure, Options, Params, Plan, Reach, Results, Rounds, Section,
    processes,
};

/// The methods, in the order of tables.
const METHODS: [CostMethod; 8] = [
    nptl::METHOD,
    parking_lot::METHOD,
    crossbeam_channel::METHOD,
    std_mpsc::METHOD,
    tokio::METHOD,
    daiko::METHOD,
    daiko::PROCESSES,
    semop::METHOD,
];

/// Threads that want one lock.
const CROWDS: [usize; 4] = [2, 10, 100, 1000];
const MOST_QUICK: usize = 100;

/// Others that wait for a time while somebody sleeps.
const TIMERS: [usize; 4] = [0, 1000, 100_000, 1_000_000];
const MOST_TIMERS_QUICK: usize = 100_000;

/// What threads cost, item by item.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: published::NAME,
    about: "what threads cost, as P2 and P5 asked: calls, switches, create and join, contended locks, channels, sleeps",
    sizes: &["threads", "timers"],
    lists: &[List::Threads],
    methods: || METHODS.iter().map(|method| method.name).collect(),
    cases,
    measure,
    published: published::points,
    sections,
};

/// What an uncontended mutex may cost fibers of worker processes.
const MUTEX_PAIR: Reach = Reach {
    what: "mutex pair",
    item: Some("mutex"),
    baseline: Baseline::Limit("rmw-pair"),
    most: 1.35,
};

fn sections(results: &Results) -> Vec<Section> {
    let own = results.of(published::NAME);
    let tables = [figures::p2(&own), figures::p5(&own), sleep_figure::section(&own)];
    tables.into_iter().chain([MUTEX_PAIR.section(results, published::NAME)]).flatten().collect()
}

fn cases(plan: &mut Plan<'_>) {
    for kind in KINDS {
        for method in METHODS {
            for item in method.items().filter(|item| item.kind == kind) {
                for params in points(item, plan.options) {
                    let skip = item.skip(&params);
                    let supported = skip.map_or_else(|| processes::supports(method.name), Err);
                    let rounds = supported.map(|()| Rounds::Calibrated { first: kind.first });
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
        (Run::Few(within, body), None, None) => Some(Box::new(move |effort| within(body, effort))),
        (Run::Many(run), Some(threads), None) => Some(Box::new(move |effort| run(threads, effort))),
        (Run::Sleeps { run, .. }, None, Some(timers)) => {
            Some(Box::new(move |effort| run(timers, effort)))
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
        Run::Few(..) => vec![item.params()],
        Run::Many(_) => {
            let asked = options.threads.clone();
            each("threads", asked.unwrap_or_else(|| up_to(CROWDS, MOST_QUICK)))
        }
        Run::Sleeps { .. } => each("timers", up_to(TIMERS, MOST_TIMERS_QUICK)),
    }
}

#[cfg(test)]
mod tests;
