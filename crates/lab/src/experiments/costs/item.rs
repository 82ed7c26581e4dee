//! Items: the parts of a method of this experiment.

use std::time::Duration;

use crate::kit::{Effort, Failure, Params, Sample, Skip};

/// The names of items, in the order of tables, with the rounds of a first, calibrating sample.
pub(super) const NAMES: [(&str, u64); 21] = [
    ("thread-info", 1000),
    ("mutex", 1000),
    ("mutex-lock", 100),
    ("mutex-unlock", 100),
    ("semaphore", 1000),
    ("switch-mutex", 1000),
    ("switch-semaphore", 1000),
    ("switch-condvar", 1000),
    ("create", 1),
    ("join", 1),
    ("create-join", 100),
    ("errand", 100),
    ("fork-join", 1),
    ("yield", 1000),
    ("mutex-contended", 1000),
    ("rwlock-contended", 100),
    ("channel", 1000),
    ("sleep-lateness", 10),
    ("place-follow", 1000),
    ("place-pair", 1000),
    ("place-stuck", 1),
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
    /// One of [`NAMES`].
    pub(super) name: &'static str,
    /// The parameters by which it differs from further items of that name.
    variant: [Option<(&'static str, &'static str)>; 2],
    /// Fails with the reason to skip if the item cannot be measured here.
    room: fn() -> Result<(), Skip>,
    pub(super) run: SampleRun,
}

/// Takes a sample on the calling thread.
pub(super) type SampleBody = fn(Effort) -> Result<Sample, Failure>;

/// Takes a sample by running a body on a thread of the method.
pub(super) type Within = fn(SampleBody, Effort) -> Result<Sample, Failure>;

/// Takes a sample.
#[derive(Clone, Copy)]
pub(super) enum SampleRun {
    Few(Within, SampleBody),
    /// Runs with a given number of threads.
    Many(fn(usize, Effort) -> Result<Sample, Failure>),
    Sleeps {
        length: Duration,
        /// Fails with the reason to skip if there is no room for this many waiting threads.
        room: fn(usize) -> Result<(), Skip>,
        /// Runs while this many other threads wait.
        run: fn(Duration, usize, Effort) -> Result<Sample, Failure>,
    },
}

impl Item {
    const fn new(name: &'static str, run: SampleRun) -> Self {
        Self { name, variant: [None; 2], room: || Ok(()), run }
    }

    /// An item with one point. `body` takes its samples on any thread.
    pub(super) const fn of(name: &'static str, body: SampleBody) -> Self {
        Self::within(|body, effort| body(effort), name, body)
    }

    /// An item with one point. `body` takes its samples on a thread of the method.
    pub(super) const fn within(within: Within, name: &'static str, body: SampleBody) -> Self {
        Self::new(name, SampleRun::Few(within, body))
    }

    /// An item with a point for each number of threads.
    pub(super) const fn of_many(
        name: &'static str,
        run: fn(usize, Effort) -> Result<Sample, Failure>,
    ) -> Self {
        Self::new(name, SampleRun::Many(run))
    }

    /// A point for each number of waiters; their `state` has sleeps of that length.
    pub(super) const fn of_sleeps(
        (state, length): (&'static str, Duration),
        room: fn(usize) -> Result<(), Skip>,
        run: fn(Duration, usize, Effort) -> Result<Sample, Failure>,
    ) -> Self {
        Self::new("sleep-lateness", SampleRun::Sleeps { length, room, run }).with("state", state)
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
        let params = Params::new().with("item", self.name);
        self.variant.iter().flatten().fold(params, |params, (key, value)| params.with(key, *value))
    }

    /// Returns the reason to skip a point, if there is one.
    pub(super) fn skip(&self, params: &Params) -> Option<Skip> {
        match self.run {
            SampleRun::Many(_) if params.size("threads")? > MOST_THREADS => Some(Skip::new(
                format!("contended locks are measured up to {MOST_THREADS} threads"),
            )),
            SampleRun::Sleeps { room, .. } => room(params.size("timers")?).err(),
            _ => (self.room)().err(),
        }
    }

    pub(super) fn is_in(&self, params: &Params) -> bool {
        let has = |(key, value)| params.text(key) == Some(value);
        has(("item", self.name)) && self.variant.into_iter().flatten().all(has)
    }
}
