//! Items: the parts of a method of this experiment.

use crate::kit::{Effort, Failure, Params, Sample, Skip};

/// Name of an item, and the number of rounds of its first, calibrating sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ItemKind {
    pub(super) name: &'static str,
    pub(super) first: u64,
}

const fn kind(name: &'static str, first: u64) -> ItemKind {
    ItemKind { name, first }
}

pub(super) const THREAD_INFO: ItemKind = kind("thread-info", 1000);
pub(super) const MUTEX: ItemKind = kind("mutex", 1000);
pub(super) const MUTEX_LOCK: ItemKind = kind("mutex-lock", 100);
pub(super) const MUTEX_UNLOCK: ItemKind = kind("mutex-unlock", 100);
pub(super) const SEMAPHORE: ItemKind = kind("semaphore", 1000);
pub(super) const SWITCH_MUTEX: ItemKind = kind("switch-mutex", 1000);
pub(super) const SWITCH_SEMAPHORE: ItemKind = kind("switch-semaphore", 1000);
pub(super) const SWITCH_CONDVAR: ItemKind = kind("switch-condvar", 1000);
pub(super) const CREATE: ItemKind = kind("create", 1);
pub(super) const JOIN: ItemKind = kind("join", 1);
pub(super) const CREATE_JOIN: ItemKind = kind("create-join", 100);
pub(super) const FORK_JOIN: ItemKind = kind("fork-join", 1);
pub(super) const YIELD: ItemKind = kind("yield", 1000);
pub(super) const MUTEX_CONTENDED: ItemKind = kind("mutex-contended", 1000);
pub(super) const RWLOCK_CONTENDED: ItemKind = kind("rwlock-contended", 100);
pub(super) const CHANNEL: ItemKind = kind("channel", 1000);
pub(super) const SLEEP_LATENESS: ItemKind = kind("sleep-lateness", 10);
pub(super) const PLACE_FOLLOW: ItemKind = kind("place-follow", 1000);
pub(super) const PLACE_PAIR: ItemKind = kind("place-pair", 1000);

/// All kinds, in the order of tables.
pub(super) const KINDS: [ItemKind; 19] = [
    THREAD_INFO,
    MUTEX,
    MUTEX_LOCK,
    MUTEX_UNLOCK,
    SEMAPHORE,
    SWITCH_MUTEX,
    SWITCH_SEMAPHORE,
    SWITCH_CONDVAR,
    CREATE,
    JOIN,
    CREATE_JOIN,
    FORK_JOIN,
    YIELD,
    MUTEX_CONTENDED,
    RWLOCK_CONTENDED,
    CHANNEL,
    SLEEP_LATENESS,
    PLACE_FOLLOW,
    PLACE_PAIR,
];

/// Largest number of threads. Beyond it, the limits of the machine would be measured rather than
/// its locks.
pub(super) const MOST_THREADS: usize = 10_000;

/// A kind of threads, and the items measured for it.
pub(super) struct CostMethod {
    pub(super) name: &'static str,
    items: &'static [&'static [Item]],
}

impl CostMethod {
    pub(super) const fn new(name: &'static str, items: &'static [&'static [Item]]) -> Self {
        Self { name, items }
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &'static Item> {
        self.items.iter().copied().flatten()
    }
}

/// An operation of a method, with the way to measure its time.
pub(super) struct Item {
    pub(super) kind: ItemKind,
    /// Parameters that distinguish it from other items of the same kind.
    variant: [Option<(&'static str, &'static str)>; 2],
    /// Fails with the reason to skip if the item cannot be measured here.
    room: fn() -> Result<(), Skip>,
    pub(super) run: Run,
}

/// Takes a sample on the calling thread.
pub(super) type Body = fn(Effort) -> Result<Sample, Failure>;

/// Takes a sample by running a body on a thread of the method.
pub(super) type Within = fn(Body, Effort) -> Result<Sample, Failure>;

/// Takes a sample.
#[derive(Clone, Copy)]
pub(super) enum Run {
    Few(Within, Body),
    /// Runs with a given number of threads.
    Many(fn(usize, Effort) -> Result<Sample, Failure>),
    Sleeps {
        /// Fails with the reason to skip if there is no room for this many waiting threads.
        room: fn(usize) -> Result<(), Skip>,
        /// Runs while this many other threads wait.
        run: fn(usize, Effort) -> Result<Sample, Failure>,
    },
}

impl Item {
    const fn new(kind: ItemKind, run: Run) -> Self {
        Self { kind, variant: [None; 2], room: || Ok(()), run }
    }

    /// An item with one point. `body` takes its samples on any thread.
    pub(super) const fn of(kind: ItemKind, body: Body) -> Self {
        Self::within(|body, effort| body(effort), kind, body)
    }

    /// An item with one point. `body` takes its samples on a thread of the method.
    pub(super) const fn within(within: Within, kind: ItemKind, body: Body) -> Self {
        Self::new(kind, Run::Few(within, body))
    }

    /// An item with a point for each number of threads.
    pub(super) const fn of_many(
        kind: ItemKind,
        run: fn(usize, Effort) -> Result<Sample, Failure>,
    ) -> Self {
        Self::new(kind, Run::Many(run))
    }

    /// An item with a point for each number of other, waiting threads.
    pub(super) const fn of_sleeps(
        kind: ItemKind,
        room: fn(usize) -> Result<(), Skip>,
        run: fn(usize, Effort) -> Result<Sample, Failure>,
    ) -> Self {
        Self::new(kind, Run::Sleeps { room, run })
    }

    /// The same item, skipped where `room` fails.
    pub(super) const fn given(self, room: fn() -> Result<(), Skip>) -> Self {
        Self { room, ..self }
    }

    pub(super) const fn with(self, key: &'static str, value: &'static str) -> Self {
        let variant = match self.variant {
            [None, _] => [Some((key, value)), None],
            [first, _] => [first, Some((key, value))],
        };
        Self { variant, ..self }
    }

    pub(super) fn params(&self) -> Params {
        let params = Params::new().with("item", self.kind.name);
        self.variant.iter().flatten().fold(params, |params, (key, value)| params.with(key, *value))
    }

    /// Returns the reason to skip a point, if there is one.
    pub(super) fn skip(&self, params: &Params) -> Option<Skip> {
        match self.run {
            Run::Many(_) if params.size("threads")? > MOST_THREADS => Some(Skip::new(format!(
                "contended locks are measured up to {MOST_THREADS} threads"
            ))),
            Run::Sleeps { room, .. } => room(params.size("timers")?).err(),
            _ => (self.room)().err(),
        }
    }

    pub(super) fn is_in(&self, params: &Params) -> bool {
        let has = |(key, value)| params.text(key) == Some(value);
        has(("item", self.kind.name)) && self.variant.into_iter().flatten().all(has)
    }
}
