//! Counts of the receivers, in memory shared with the sending process.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use daiko_sys::futex;

use crate::kit::{Failure, ForkShared, Histogram, Latencies, WrongDatum, Zeroed};

/// All counts of a sample.
pub(super) struct Board {
    start: ForkShared<StartSignal>,
    flows: ForkShared<Received>,
    /// One tally per CPU, as many receivers write them.
    tallies: ForkShared<CpuTally>,
}

/// The start signal for the receivers, and the first wrong message.
struct StartSignal {
    begun: AtomicU32,
    wrong: WrongDatum,
}

/// Number of received messages of a flow; only its receiver writes it.
#[repr(C, align(128))]
struct Received(AtomicU64);

/// Events on one CPU. All counts except `messages` concern messages with a time.
#[repr(C, align(128))]
struct CpuTally {
    messages: AtomicU64,
    wakes: AtomicU64,
    migrations: AtomicU64,
    swaps: AtomicU64,
    /// Completed runs of consecutive swaps: their number, the sum of their lengths, and the
    /// longest.
    settled: AtomicU64,
    settled_swaps: AtomicU64,
    longest: AtomicU64,
    /// Latencies from the due times of messages, and from their sending times.
    latencies: [Histogram; 2],
}

// SAFETY: all fields are atomic numbers, for which zero is a valid value.
unsafe impl Zeroed for StartSignal {}
// SAFETY: an atomic number, as above.
unsafe impl Zeroed for Received {}
// SAFETY: atomic numbers as above, and histograms of atomic numbers.
unsafe impl Zeroed for CpuTally {}

/// Classification of a wake-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wake {
    pub(super) migrates: bool,
    pub(super) swaps: bool,
    /// Length of the run of swaps that this wake-up ends, if it ends one.
    pub(super) settles: Option<u64>,
}

/// Sums over all CPUs.
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
    /// A board for this many flows, and for CPU numbers below `cpus`.
    pub(super) fn new(flows: usize, cpus: usize) -> Result<Self, Failure> {
        Ok(Self {
            start: ForkShared::new(1)?,
            flows: ForkShared::new(flows)?,
            tallies: ForkShared::new(cpus)?,
        })
    }

    /// Lets the receivers begin.
    pub(super) fn begin(&self) {
        // Relaxed: no other data is read on the strength of this flag.
        self.start[0].begun.store(1, Ordering::Relaxed);
        futex::wake(&self.start[0].begun, 1, futex::Scope::Shared);
    }

    /// Waits until the receivers may begin.
    pub(super) fn await_begin(&self) {
        while self.start[0].begun.load(Ordering::Relaxed) == 0 {
            let _ = futex::wait(&self.start[0].begun, 0, None, futex::Scope::Shared);
        }
    }

    /// The first message that was not the next message of its flow.
    pub(super) fn wrong(&self) -> &WrongDatum {
        &self.start[0].wrong
    }

    /// Records that flow number `flow` has received `messages` in total, `new` of them on `cpu`
    /// just now.
    pub(super) fn note_received(&self, flow: usize, messages: u64, new: u64, cpu: usize) {
        self.flows[flow].0.store(messages, Ordering::Relaxed);
        // Relaxed, like all accesses here: nothing else depends on these sums.
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

    /// Number of received messages of flow number `flow`.
    pub(super) fn received(&self, flow: usize) -> u64 {
        self.flows[flow].0.load(Ordering::Relaxed)
    }

    /// Number of received messages of all flows.
    pub(super) fn messages(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.messages.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn totals(&self) -> Totals {
        let sum = |word: fn(&CpuTally) -> &AtomicU64| {
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

    /// Latencies of messages with a time: from the due times, and from the sending times.
    pub(super) fn latencies(&self) -> [Latencies; 2] {
        [0, 1].map(|which| {
            let mut latencies = Latencies::default();
            self.tallies.iter().for_each(|tally| latencies.add(&tally.latencies[which]));
            latencies
        })
    }
}
