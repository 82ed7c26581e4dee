//! What receivers count, in memory that they share with who sends.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use daiko_sys::futex;

use crate::kit::{Failure, Histogram, Latencies, Shared, WrongDatum, Zeroed};

/// All of it.
pub(super) struct Board {
    start: Shared<Start>,
    flows: Shared<Received>,
    /// One for each CPU, as many receivers write.
    tallies: Shared<Tally>,
}

/// Whether the receivers may begin, and what was wrong with what they got.
struct Start {
    begun: AtomicU32,
    wrong: WrongDatum,
}

/// Messages of a flow that were received; written by its receiver alone.
#[repr(C, align(128))]
struct Received(AtomicU64);

/// What happened on a CPU. All counts but `messages` are of messages that had a time.
#[repr(C, align(128))]
struct Tally {
    messages: AtomicU64,
    wakes: AtomicU64,
    migrations: AtomicU64,
    swaps: AtomicU64,
    /// Swaps one after the other, seen when they are over: how often, how many in all, and how many at most.
    settled: AtomicU64,
    settled_swaps: AtomicU64,
    longest: AtomicU64,
    /// From when messages were due, and from when they were sent.
    latencies: [Histogram; 2],
}

// SAFETY: atomic numbers, for which zero is a value.
unsafe impl Zeroed for Start {}
// SAFETY: likewise.
unsafe impl Zeroed for Received {}
// SAFETY: likewise, and a histogram of such.
unsafe impl Zeroed for Tally {}

/// What a wake-up was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wake {
    pub(super) migrates: bool,
    pub(super) swaps: bool,
    /// If this one ends swaps that followed one another: how many these were.
    pub(super) settles: Option<u64>,
}

/// The sums of all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) wakes: u64,
    pub(super) migrations: u64,
    pub(super) swaps: u64,
    pub(super) settled: u64,
    pub(super) settled_swaps: u64,
    pub(super) longest: u64,
}

impl Board {
    /// For so many flows and CPUs of numbers below `cpus`.
    pub(super) fn new(flows: usize, cpus: usize) -> Result<Self, Failure> {
        Ok(Self { start: Shared::new(1)?, flows: Shared::new(flows)?, tallies: Shared::new(cpus)? })
    }

    /// Lets receivers begin.
    pub(super) fn begin(&self) {
        // Relaxed: nothing is read on the strength of it.
        self.start[0].begun.store(1, Ordering::Relaxed);
        futex::wake(&self.start[0].begun, 1, futex::Scope::Shared);
    }

    /// Waits until they may.
    pub(super) fn await_begin(&self) {
        while self.start[0].begun.load(Ordering::Relaxed) == 0 {
            let _ = futex::wait(&self.start[0].begun, 0, None, futex::Scope::Shared);
        }
    }

    /// A message that was not its flow's next one.
    pub(super) fn wrong(&self) -> &WrongDatum {
        &self.start[0].wrong
    }

    /// Flow number `flow` has so many messages by now, `new` of them received on `cpu` just now.
    pub(super) fn note_received(&self, flow: usize, messages: u64, new: u64, cpu: usize) {
        self.flows[flow].0.store(messages, Ordering::Relaxed);
        // Relaxed, as all: sums that nothing else depends on.
        self.tallies[cpu].messages.fetch_add(new, Ordering::Relaxed);
    }

    pub(super) fn note_latency(&self, cpu: usize, of_due_ns: u64, of_sent_ns: u64) {
        let [of_due, of_sent] = &self.tallies[cpu].latencies;
        of_due.record_shared(of_due_ns);
        of_sent.record_shared(of_sent_ns);
    }

    pub(super) fn note_wake(&self, cpu: usize, wake: Wake) {
        let tally = &self.tallies[cpu];
        let add = |word: &AtomicU64, count| word.fetch_add(count, Ordering::Relaxed);
        add(&tally.wakes, 1);
        if wake.migrates {
            add(&tally.migrations, 1);
        }
        if wake.swaps {
            add(&tally.swaps, 1);
        }
        if let Some(swaps) = wake.settles {
            add(&tally.settled, 1);
            add(&tally.settled_swaps, swaps);
            tally.longest.fetch_max(swaps, Ordering::Relaxed);
        }
    }

    /// Messages of flow number `flow` that were received.
    pub(super) fn received(&self, flow: usize) -> u64 {
        self.flows[flow].0.load(Ordering::Relaxed)
    }

    /// All messages that were received.
    pub(super) fn messages(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.messages.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn totals(&self) -> Totals {
        let sum = |word: fn(&Tally) -> &AtomicU64| {
            self.tallies.iter().map(|tally| word(tally).load(Ordering::Relaxed)).sum()
        };
        let longest = self.tallies.iter().map(|tally| tally.longest.load(Ordering::Relaxed));
        Totals {
            wakes: sum(|tally| &tally.wakes),
            migrations: sum(|tally| &tally.migrations),
            swaps: sum(|tally| &tally.swaps),
            settled: sum(|tally| &tally.settled),
            settled_swaps: sum(|tally| &tally.settled_swaps),
            longest: longest.max().unwrap_or_default(),
        }
    }

    /// Of messages that had a time: from when they were due, and from when they were sent.
    pub(super) fn latencies(&self) -> [Latencies; 2] {
        [0, 1].map(|which| {
            let mut latencies = Latencies::default();
            self.tallies.iter().for_each(|tally| latencies.add(&tally.latencies[which]));
            latencies
        })
    }
}
