//! One picture of `daiko top`.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use daiko_inspect::{FiberRow, FiberState, Reader, RuntimeRow, Subject, WorkerRow};

/// Counters that are shown, with the heads of their columns.
const COLUMNS: [(&str, &str); 8] = [
    ("switches", "SWITCHES/s"),
    ("wakes_local", "WAKES/s"),
    ("mails_sent", "SENT/s"),
    ("watch_hits", "HITS/s"),
    ("polls", "POLLS/s"),
    ("parks", "PARKS/s"),
    ("steals", "STEALS/s"),
    ("stuck", "STUCK/s"),
];
/// Number of groups of waits that are shown.
const MOST_WAITS: usize = 10;

/// The order of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    /// The order of their indices.
    Worker,
    /// The order of a column, the largest rate first.
    Column(usize),
}

impl Sort {
    pub(super) fn next(self) -> Self {
        match self {
            Sort::Worker => Sort::Column(0),
            Sort::Column(column) if column + 1 < COLUMNS.len() => Sort::Column(column + 1),
            Sort::Column(_) => Sort::Worker,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Sort::Worker => "worker",
            Sort::Column(column) => COLUMNS[column].1,
        }
    }
}

/// All workers and fibers at one time.
pub(super) struct TopSample {
    pub(super) at: Instant,
    runtimes: Vec<RuntimeRow>,
    pub(super) fibers: Vec<FiberRow>,
}

impl TopSample {
    pub(super) fn at(reader: &Reader<&Subject>) -> Self {
        let at = Instant::now();
        let (runtimes, fibers) = reader.all();
        TopSample { at, runtimes, fibers }
    }

    fn workers(&self) -> impl Iterator<Item = &WorkerRow> {
        self.runtimes.iter().flat_map(|runtime| &runtime.workers)
    }
}

/// The times since which fibers are known to wait.
#[derive(Default)]
pub(super) struct Waits {
    since: HashMap<u64, (FiberRow, Instant)>,
    states: HashMap<FiberState, usize>,
}

impl Waits {
    /// Takes note of all fibers. One that has not moved since the last look has waited meanwhile.
    pub(super) fn update(&mut self, fibers: Vec<FiberRow>, now: Instant) {
        self.states.clear();
        let mut since = HashMap::new();
        for fiber in fibers {
            *self.states.entry(fiber.state).or_default() += 1;
            if fiber.state.is_suspended() {
                let known = self.since.remove(&fiber.id).filter(|(before, _)| *before == fiber);
                since.insert(fiber.id, known.unwrap_or((fiber, now)));
            }
        }
        self.since = since;
    }

    /// Returns groups of fibers that were spawned at one place and wait for one object: how long
    /// the longest of each has waited, and how many there are. The longest waits come first.
    fn longest(&self, now: Instant) -> Vec<(Duration, usize, &FiberRow)> {
        let mut groups: HashMap<_, (Instant, usize, &FiberRow)> = HashMap::new();
        for (fiber, since) in self.since.values() {
            let key = (&fiber.wait, &fiber.spawned_at);
            let group = groups.entry(key).or_insert((*since, 0, fiber));
            group.1 += 1;
            if *since < group.0 {
                (group.0, group.2) = (*since, fiber);
            }
        }
        let mut groups: Vec<_> =
            groups.into_values().map(|(since, count, fiber)| (now - since, count, fiber)).collect();
        groups
            .sort_by_key(|(waited, count, fiber)| (std::cmp::Reverse((*waited, *count)), fiber.id));
        groups.truncate(MOST_WAITS);
        groups
    }
}

/// One picture, as lines.
pub(super) struct Frame(Vec<String>);

impl Frame {
    pub(super) fn new(
        subject: &Subject,
        reader: &Reader<&Subject>,
        [before, now]: [&TopSample; 2],
        sort: Sort,
        waits: &Waits,
    ) -> Self {
        let count = |state| waits.states.get(&state).copied().unwrap_or(0);
        let states = FiberState::ALL.into_iter().filter(|&state| count(state) > 0);
        let states: Vec<_> =
            states.map(|state| format!("{} {}", count(state), state.name())).collect();
        let mut lines = vec![
            format!("{}: fibers: {}", subject.name(), states.join(", ")),
            format!("sorted by {}; s: next order, q: end", sort.name()),
            String::new(),
        ];
        lines.extend(workers(reader.counter_names(), [before, now], sort));
        lines.push(String::new());
        lines.push(format!("{:>10}  {:>7}  LONGEST WAITS", "SECONDS", "FIBERS"));
        lines.extend(waits.longest(now.at).into_iter().map(|(waited, count, fiber)| {
            let wait = fiber.wait.as_ref();
            let kind = wait.map_or("", |wait| &*wait.kind);
            let object = wait.map_or(0, |wait| wait.object);
            let object = if object == 0 { String::new() } else { format!(" {object:#x}") };
            let label = fiber.label().map(|label| format!(" ({label})")).unwrap_or_default();
            let place = fiber.spawn_place();
            let waited = format!(">= {}", waited.as_secs());
            format!("{waited:>10}  {count:>7}  {kind}{object}, spawned at {place}{label}")
        }));
        Frame(lines)
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.0
    }
}

/// Returns the table of workers that have a thread.
fn workers(names: &[String], [before, now]: [&TopSample; 2], sort: Sort) -> Vec<String> {
    let places = COLUMNS.map(|(name, _)| names.iter().position(|counter| counter == name));
    let earlier: HashMap<_, _> = before.workers().map(|worker| (worker.id, worker)).collect();
    let seconds = (now.at - before.at).as_secs_f64();
    let rate = |worker: &WorkerRow, place: Option<usize>| {
        let value = |worker: &WorkerRow| worker.counters.get(place?).copied();
        let (from, to) = (value(earlier.get(&worker.id)?)?, value(worker)?);
        Some(to.saturating_sub(from) as f64 / seconds)
    };
    let started = now.workers().filter(|worker| worker.thread != 0);
    let mut rows: Vec<_> =
        started.map(|worker| (worker, places.map(|place| rate(worker, place)))).collect();
    if let Sort::Column(column) = sort {
        rows.sort_by(|(_, one), (_, other)| {
            other[column].unwrap_or(0.0).total_cmp(&one[column].unwrap_or(0.0))
        });
    }
    let heads = COLUMNS.map(|(_, head)| format!("{head:>11}")).concat();
    let head = format!("{:>6}  {:>8}  {:>8}{heads}", "WORKER", "THREAD", "STATE");
    let row = |(worker, rates): &(&WorkerRow, [Option<f64>; 8])| {
        let state = match (worker.is_stuck, worker.running, worker.is_active) {
            (true, ..) => "stuck",
            (_, Some(_), _) => "runs",
            (_, None, true) => "agent",
            (_, None, false) => "stands by",
        };
        let rates = rates.map(|rate| match rate {
            Some(rate) => format!("{rate:>11.0}"),
            None => format!("{:>11}", "-"),
        });
        format!("{:>6}  {:>8}  {state:>8}{}", worker.index, worker.thread, rates.concat())
    };
    std::iter::once(head).chain(rows.iter().map(row)).collect()
}
