//! What a method of this experiment consists of: items.

use std::time::Duration;

use crate::kit::{Effort, Failure, Params, Sample, Skip};

/// The names of items, in the order of tables, with the rounds of a first, calibrating sample.
pub(super) const NAMES: [(&str, u64); 19] = [
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
    ("fork-join", 1),
    ("yield", 1000),
    ("mutex-contended", 1000),
    ("rwlock-contended", 100),
    ("channel", 1000),
    ("sleep-lateness", 10),
    ("place-follow", 1000),
    ("place-pair", 1000),
];

/// Beyond so many threads a machine's limits are the subject, not its locks.
pub(super) const MOST_THREADS: usize = 10_000;

/// A way to have threads.
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

/// Something that a method does and that costs time.
pub(super) struct Item {
    /// One of [`NAMES`].
    pub(super) name: &'static str,
    /// The parameters by which it differs from others of that name.
    variant: [Option<(&'static str, &'static str)>; 2],
    /// Whether it can be measured here.
    room: fn() -> Result<(), Skip>,
    pub(super) run: Run,
}

/// Takes a sample on the calling thread.
pub(super) type Body = fn(Effort) -> Result<Sample, Failure>;

/// Takes a sample by a body, on a thread of the method's.
pub(super) type Within = fn(Body, Effort) -> Result<Sample, Failure>;

/// Takes a sample.
#[derive(Clone, Copy)]
pub(super) enum Run {
    Few(Within, Body),
    /// With so many threads.
    Many(fn(usize, Effort) -> Result<Sample, Failure>),
    Sleeps {
        length: Duration,
        /// Whether there is room for so many others.
        room: fn(usize) -> Result<(), Skip>,
        /// While so many others wait.
        run: fn(Duration, usize, Effort) -> Result<Sample, Failure>,
    },
}

impl Item {
    const fn new(name: &'static str, run: Run) -> Self {
        Self { name, variant: [None; 2], room: || Ok(()), run }
    }

    /// A point whose samples `body` takes on any thread.
    pub(super) const fn of(name: &'static str, body: Body) -> Self {
        Self::within(|body, effort| body(effort), name, body)
    }

    /// A point whose samples `body` takes on a thread of the method's.
    pub(super) const fn within(within: Within, name: &'static str, body: Body) -> Self {
        Self::new(name, Run::Few(within, body))
    }

    /// A point for each number of threads.
    pub(super) const fn of_many(
        name: &'static str,
        run: fn(usize, Effort) -> Result<Sample, Failure>,
    ) -> Self {
        Self::new(name, Run::Many(run))
    }

    /// A point for each number of others that wait, whose `state` has sleeps of that length.
    pub(super) const fn of_sleeps(
        (state, length): (&'static str, Duration),
        room: fn(usize) -> Result<(), Skip>,
        run: fn(Duration, usize, Effort) -> Result<Sample, Failure>,
    ) -> Self {
        Self::new("sleep-lateness", Run::Sleeps { length, room, run }).with("state", state)
    }

    /// Where there is `room` for it.
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

    /// Why a point is left out.
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
        has(("item", self.name)) && self.variant.into_iter().flatten().all(has)
    }
}
