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
//! | `place-follow` | it is decided 128 times where a mover goes on that has waited for a socket | per decision |
//! | `place-pair` | of 16 fibers of both classes, on one worker, all yield that come before the first has its next turn: `fiber=pinned` or `mover`. Another worker, which runs as many, a µs or two each, is taken for a sibling (`pairing=on`), or not (`off`) | per hop: their difference is what the choice costs |
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

mod calls;
mod channel;
mod create;
mod crossbeam_channel;
mod crowd;
mod daiko;
mod info;
mod laps;
mod locks;
mod nptl;
mod parking_lot;
mod place;
mod semop;
mod sleep;
mod std_mpsc;
mod switch;
mod threads;
mod tokio;
mod turn;

use self::{crowd::Crowded, laps::Timed, sleep::Lateness};
use crate::kit::{
    Case, Effort, Experiment, Failure, List, Options, Params, Planned, Reading, Rounds, Sample,
    Skip, Unit, processes,
};

const THREAD_INFO: &str = "thread-info";
const MUTEX: &str = "mutex";
const MUTEX_LOCK: &str = "mutex-lock";
const MUTEX_UNLOCK: &str = "mutex-unlock";
const SEMAPHORE: &str = "semaphore";
const SWITCH_MUTEX: &str = "switch-mutex";
const SWITCH_SEMAPHORE: &str = "switch-semaphore";
const SWITCH_CONDVAR: &str = "switch-condvar";
const CREATE: &str = "create";
const JOIN: &str = "join";
const CREATE_JOIN: &str = "create-join";
const FORK_JOIN: &str = "fork-join";
const YIELD: &str = "yield";
const MUTEX_CONTENDED: &str = "mutex-contended";
const RWLOCK_CONTENDED: &str = "rwlock-contended";
const CHANNEL: &str = "channel";
const SLEEP_LATENESS: &str = "sleep-lateness";
const PLACE_FOLLOW: &str = "place-follow";
const PLACE_PAIR: &str = "place-pair";

/// The items, in the order of tables, with the rounds of a first, calibrating sample.
const ITEMS: [(&str, u64); 19] = [
    (THREAD_INFO, 1000),
    (MUTEX, 1000),
    (MUTEX_LOCK, 100),
    (MUTEX_UNLOCK, 100),
    (SEMAPHORE, 1000),
    (SWITCH_MUTEX, 1000),
    (SWITCH_SEMAPHORE, 1000),
    (SWITCH_CONDVAR, 1000),
    (CREATE, 1),
    (JOIN, 1),
    (CREATE_JOIN, 100),
    (FORK_JOIN, 1),
    (YIELD, 1000),
    (MUTEX_CONTENDED, 1000),
    (RWLOCK_CONTENDED, 100),
    (CHANNEL, 1000),
    (SLEEP_LATENESS, 10),
    (PLACE_FOLLOW, 1000),
    (PLACE_PAIR, 1000),
];

/// The methods, in the order of tables.
const METHODS: [Method; 8] = [
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
/// Beyond so many threads a machine's limits are the subject, not its locks.
const MOST_THREADS: usize = 10_000;

/// Others that wait for a time while somebody sleeps.
const TIMERS: [usize; 4] = [0, 1000, 100_000, 1_000_000];
const MOST_TIMERS_QUICK: usize = 100_000;

/// A way to have threads.
struct Method {
    name: &'static str,
    items: &'static [Item],
}

/// Something that a method does and that costs time.
struct Item {
    /// One of [`ITEMS`].
    name: &'static str,
    /// The parameters by which it differs from others of that name.
    variant: [Option<(&'static str, &'static str)>; 2],
    /// Whether it can be measured here.
    room: fn() -> Result<(), Skip>,
    run: Run,
}

/// Takes a sample.
#[derive(Clone, Copy)]
enum Run {
    Few(fn(Effort) -> Result<Timed, Failure>),
    /// With so many threads.
    Many(fn(usize, Effort) -> Result<Crowded, Failure>),
    Sleeps {
        /// Whether there is room for so many others.
        room: fn(usize) -> Result<(), Skip>,
        /// While so many others wait.
        run: fn(usize, Effort) -> Result<Lateness, Failure>,
    },
}

impl Item {
    const fn new(name: &'static str, run: Run) -> Self {
        Self { name, variant: [None; 2], room: || Ok(()), run }
    }

    const fn of(name: &'static str, run: fn(Effort) -> Result<Timed, Failure>) -> Self {
        Self::new(name, Run::Few(run))
    }

    /// A point for each number of threads.
    const fn of_many(
        name: &'static str,
        run: fn(usize, Effort) -> Result<Crowded, Failure>,
    ) -> Self {
        Self::new(name, Run::Many(run))
    }

    /// A point for each number of others that wait.
    const fn of_sleeps(
        name: &'static str,
        room: fn(usize) -> Result<(), Skip>,
        run: fn(usize, Effort) -> Result<Lateness, Failure>,
    ) -> Self {
        Self::new(name, Run::Sleeps { room, run })
    }

    /// Where there is `room` for it.
    const fn given(self, room: fn() -> Result<(), Skip>) -> Self {
        Self { room, ..self }
    }

    const fn with(self, key: &'static str, value: &'static str) -> Self {
        let variant = match self.variant {
            [None, _] => [Some((key, value)), None],
            [first, _] => [first, Some((key, value))],
        };
        Self { variant, ..self }
    }

    fn params(&self) -> Params {
        let params = Params::new().with("item", self.name);
        self.variant.iter().flatten().fold(params, |params, (key, value)| params.with(key, *value))
    }

    /// The parameters of all points.
    fn points(&self, options: &Options) -> Vec<Params> {
        let each = |key, sizes: Vec<usize>| {
            sizes.into_iter().map(|size| self.params().with(key, size)).collect()
        };
        match self.run {
            Run::Few(_) => vec![self.params()],
            Run::Many(_) => each("threads", crowds(options)),
            Run::Sleeps { .. } => each("timers", timers(options)),
        }
    }

    /// Why a point is left out.
    fn skip(&self, params: &Params) -> Option<Skip> {
        let number = |key| params.number(key).map(|number| number as usize);
        match self.run {
            Run::Many(_) if number("threads")? > MOST_THREADS => Some(Skip::new(format!(
                "contended locks are measured up to {MOST_THREADS} threads"
            ))),
            Run::Sleeps { room, .. } => room(number("timers")?).err(),
            _ => (self.room)().err(),
        }
    }

    fn is_in(&self, params: &Params) -> bool {
        let has = |(key, value)| params.text(key) == Some(value);
        has(("item", self.name)) && self.variant.into_iter().flatten().all(has)
    }
}

/// What threads cost, item by item.
pub struct Costs;

impl Experiment for Costs {
    fn name(&self) -> &'static str {
        "costs"
    }

    fn about(&self) -> &'static str {
        "what threads cost, as P2 and P5 asked: calls, switches, create and join, contended locks, channels, sleeps"
    }

    fn methods(&self) -> Vec<&'static str> {
        METHODS.iter().map(|method| method.name).collect()
    }

    fn takes(&self, list: List) -> bool {
        list == List::Threads
    }

    fn plan(&self, options: &Options) -> Vec<Planned> {
        let mut plan = Vec::new();
        for (name, first) in ITEMS {
            for method in METHODS.iter().filter(|method| options.wants(method.name)) {
                let items = method.items.iter().filter(|item| item.name == name);
                for item in items {
                    let points = item.points(options).into_iter();
                    plan.extend(points.map(|params| planned(method, item, params, first)));
                }
            }
        }
        plan
    }

    fn sample(&self, case: &Case, effort: Effort) -> Result<Sample, Failure> {
        let Some(item) = find(case) else {
            return Err(Failure::Broken(format!("{case}: there is no such point")));
        };
        let number = |key| case.params.number(key).map(|number| number as usize);
        match (item.run, number("threads"), number("timers")) {
            (Run::Few(run), None, None) => Ok(sample_of(&run(effort)?)),
            (Run::Many(run), Some(threads), None) => Ok(sample_of_many(&run(threads, effort)?)),
            (Run::Sleeps { run, .. }, None, Some(timers)) => {
                Ok(sample_of_sleeps(&run(timers, effort)?))
            }
            _ => Err(Failure::Broken(format!("{case}: there is no such point"))),
        }
    }
}

fn planned(method: &Method, item: &Item, params: Params, first: u64) -> Planned {
    let supported = item.skip(&params).map_or_else(|| processes::supports(method.name), Err);
    let rounds = supported.map(|()| Rounds::Calibrated { first });
    let case = Case { experiment: "costs".into(), method: method.name.into(), params };
    Planned { case, rounds }
}

/// How many threads want one lock.
fn crowds(options: &Options) -> Vec<usize> {
    match &options.threads {
        Some(asked) => asked.clone(),
        None => CROWDS.into_iter().filter(|&size| !options.quick || size <= MOST_QUICK).collect(),
    }
}

/// How many others wait while somebody sleeps.
fn timers(options: &Options) -> Vec<usize> {
    let most = if options.quick { MOST_TIMERS_QUICK } else { usize::MAX };
    TIMERS.into_iter().filter(|&timers| timers <= most).collect()
}

fn sample_of(timed: &Timed) -> Sample {
    Sample {
        rounds: timed.rounds,
        elapsed: timed.elapsed,
        readings: vec![Reading::new(Unit::Nanoseconds, timed.each())],
    }
}

fn sample_of_many(Crowded { timed, worst }: &Crowded) -> Sample {
    let mut sample = sample_of(timed);
    sample.readings.push(Reading::stat(Unit::Nanoseconds, "max", worst.as_nanos() as f64));
    sample
}

/// The median, for what disturbs the machine holds up a few sleepers for very long.
fn sample_of_sleeps(Lateness { timed, late }: &Lateness) -> Sample {
    let readings = vec![
        Reading::new(Unit::Nanoseconds, late.median),
        Reading::stat(Unit::Nanoseconds, "max", late.max),
    ];
    Sample { rounds: timed.rounds, elapsed: timed.elapsed, readings }
}

fn find(case: &Case) -> Option<&'static Item> {
    let method = const { &METHODS }.iter().find(|method| method.name == case.method)?;
    method.items.iter().find(|item| item.is_in(&case.params))
}

#[cfg(test)]
mod tests;
