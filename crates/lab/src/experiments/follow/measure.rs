//! One sample of a method.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use daiko_sys::clock;
use daiko_sys::counters::{Counter, Miss};
use daiko_sys::cpu::{self, CpuSet};

use super::board::{Board, Totals};
use super::ground::Ground;
use super::method::Receiving;
use super::sender::Senders;
use crate::kit::{Failure, Fork, Latencies, OrFailure, Reading, Sample, Unit, files};

/// Messages per second of all flows while latencies are measured. This is a small part of the
/// receivers' capacity, so that CPUs are idle now and then and a wake-up finds an idle CPU.
pub(super) const RATE: f64 = 20_000.0;
/// Descriptors per flow in the receivers' process: both ends of the connection.
const ENDS: usize = 2;

const REFUSED: &str = "cannot connect";

/// Processor counters and their names in results.
const MISSES: [(Miss, &str); 4] = [
    (Miss::LastCacheLoad, "llc-load-misses"),
    (Miss::LastCacheStore, "llc-store-misses"),
    (Miss::TranslationLoad, "dtlb-load-misses"),
    (Miss::TranslationStore, "dtlb-store-misses"),
];

/// Parameters of a sample.
pub(super) struct FollowSpec {
    pub(super) method: Receiving,
    pub(super) flows: usize,
    /// Whether packets are steered to the CPU of their reader.
    pub(super) rfs: bool,
    /// Duration of each part.
    pub(super) window: Duration,
}

impl FollowSpec {
    /// Takes the sample.
    ///
    /// # Errors
    /// Returns one line for the user.
    pub(super) fn sample(&self) -> Result<Sample, Failure> {
        let set = cpu::allowed().unwrap_or_default();
        let cpus: Vec<usize> = set.iter().collect();
        files::allow(self.flows * ENDS)?;
        let _ground = Ground::enter(self.rfs, &set)?;
        let sample = self.sample_on(&cpus)?;
        same_cpus(&set, &cpu::allowed().unwrap_or_default())?;
        Ok(sample)
    }

    fn sample_on(&self, cpus: &[usize]) -> Result<Sample, Failure> {
        let most = cpus.iter().max().map_or(0, |most| most + 1);
        let board = Arc::new(Board::new(self.flows, most)?);
        let receivers = Receivers::start(self.method, self.flows, &board)?;
        let measured = receivers.connect(self.flows).and_then(|sockets| {
            let mut senders = Senders::new(cpus, sockets).or_limit(REFUSED)?;
            senders.greet(&board)?;
            // Warms up caches, buffers and predictors of both sides.
            senders.flood(&board, self.window / 4)?;
            let flood = senders.flood(&board, self.window)?;
            let open = receivers.watched(&board, || senders.open(&board, RATE, self.window))?;
            Ok(sample(flood, &open))
        });
        measured.map_err(|failure| receivers.explain(failure, &board))
    }
}

/// Fails if the set of CPUs changed. Workers and senders are bound to CPUs, so a CPU that is added
/// or removed changes the measurement.
fn same_cpus(before: &CpuSet, after: &CpuSet) -> Result<(), Failure> {
    if before == after {
        return Ok(());
    }
    Err(Failure::Broken(format!(
        "CPUs went from {before} to {after} meanwhile: leave them alone while they are measured"
    )))
}

/// The receiving process, killed when dropped.
struct Receivers {
    process: Fork,
    listener: TcpListener,
    counters: Vec<(&'static str, Counter)>,
}

/// Observations of the part in which messages have due times.
struct Open {
    elapsed_ns: u64,
    cpu_ns: u64,
    machine_ns: u64,
    misses: Vec<(&'static str, f64)>,
    totals: Totals,
    latencies: [Latencies; 2],
}

impl Receivers {
    fn start(method: Receiving, flows: usize, board: &Arc<Board>) -> Result<Self, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listener = listener.or_limit("cannot start receivers")?;
        let receive = || {
            board.await_begin();
            let accepted: io::Result<Vec<TcpStream>> =
                (0..flows).map(|_| Ok(listener.accept()?.0)).collect();
            (method.receive)(accepted?, board)
        };
        let process = Fork::start("receivers", receive)?;
        // Opened before the receivers start their threads, because threads that start later are
        // counted.
        let counters = MISSES
            .into_iter()
            .filter_map(|(miss, name)| Some((name, Counter::open(miss, process.pid()).ok()?)));
        let counters = counters.collect();
        board.begin();
        Ok(Self { process, listener, counters })
    }

    fn connect(&self, flows: usize) -> Result<Vec<TcpStream>, Failure> {
        let address = self.listener.local_addr().or_limit(REFUSED)?;
        let connect = |_| TcpStream::connect(address).or_limit(REFUSED);
        (0..flows).map(connect).collect()
    }

    /// Observes the receivers while `body` sends.
    fn watched(
        &self,
        board: &Board,
        body: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Open, Failure> {
        let now = || {
            let machine_ns = clock::machine_busy_ns().unwrap_or_default();
            [clock::monotonic_ns(), self.process.cpu_ns(), machine_ns]
        };
        let (start, misses) = (now(), self.misses());
        body()?;
        let (end, misses_after) = (now(), self.misses());
        let [elapsed_ns, cpu_ns, machine_ns] = [0, 1, 2].map(|i| end[i].saturating_sub(start[i]));
        let missed = misses_after.into_iter().zip(misses);
        Ok(Open {
            elapsed_ns,
            cpu_ns,
            machine_ns,
            misses: missed.map(|(after, before)| (after.0, after.1 - before.1)).collect(),
            totals: board.totals(),
            latencies: board.latencies(),
        })
    }

    /// Values of the counters. A counter that cannot be read is left out.
    fn misses(&self) -> Vec<(&'static str, f64)> {
        let read = |(name, counter): &(&'static str, Counter)| Some((*name, counter.count().ok()?));
        self.counters.iter().filter_map(read).collect()
    }

    /// Returns the error that the receivers reported, which is the cause of `failure`, or `failure`
    /// if they reported none.
    fn explain(&self, failure: Failure, board: &Board) -> Failure {
        board
            .wrong()
            .failure()
            .unwrap_or_else(|| self.process.explain(failure, "the receivers have"))
    }
}

/// Builds the sample. A round is a message.
fn sample((messages, flood_ns): (u64, u64), open: &Open) -> Sample {
    let rate = |stat, count: u64| Reading::rate(stat, count as f64, open.elapsed_ns);
    let Totals { wakes, migrations, swaps, settled, settled_swaps, longest } = open.totals;
    let mut readings = vec![
        Reading::rate("throughput", messages as f64, flood_ns),
        rate("wakes", wakes),
        rate("migrations", migrations),
        rate("swaps", swaps),
        Reading::percent("cpu", open.cpu_ns, open.elapsed_ns),
        Reading::percent("machine-cpu", open.machine_ns, open.elapsed_ns),
    ];
    if settled > 0 {
        readings.push(Reading::stat(Unit::Count, "settle", settled_swaps as f64 / settled as f64));
        readings.push(Reading::stat(Unit::Count, "settle-max", longest as f64));
    }
    for (stat, latencies) in ["p99", "p99-sent"].into_iter().zip(&open.latencies) {
        readings.extend(latencies.readings(&[(stat, 990)]));
    }
    let misses = open.misses.iter();
    readings.extend(misses.map(|(stat, count)| Reading::rate(stat, *count, open.elapsed_ns)));
    Sample { rounds: messages, elapsed: Duration::from_nanos(flood_ns), readings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_per_second_and_per_cent() {
        let mut latencies = [Latencies::default(), Latencies::default()];
        (1..=100).for_each(|latency| latencies[0].record(latency.min(50)));
        latencies[1].record(7);
        // One of the swaps is in a run that has not ended.
        let totals = Totals {
            wakes: 100,
            migrations: 20,
            swaps: 6,
            settled: 2,
            settled_swaps: 5,
            longest: 3,
        };
        let open = Open {
            elapsed_ns: 2_000_000_000,
            cpu_ns: 500_000_000,
            machine_ns: 1_000_000_000,
            misses: vec![("llc-load-misses", 9.0)],
            totals,
            latencies,
        };
        let sample = sample((30, 1_000_000_000), &open);
        let told: Vec<String> = sample
            .readings
            .iter()
            .map(|it| format!("{} {} {}", it.stat.as_deref().unwrap_or(""), it.value, it.unit))
            .collect();
        assert_eq!(
            told,
            [
                "throughput 30 1/s",
                "wakes 50 1/s",
                "migrations 10 1/s",
                "swaps 3 1/s",
                "cpu 25 cpu%",
                "machine-cpu 50 cpu%",
                "settle 2.5 count",
                "settle-max 3 count",
                "p99 50 ns",
                "p99-sent 7 ns",
                "llc-load-misses 4.5 1/s",
            ]
        );
    }

    #[test]
    fn misses_have_the_published_names() {
        let published = crate::kit::p3::EVENTS.into_iter().map(|(stat, _)| stat);
        assert!(published.skip(1).eq(MISSES.map(|(_, stat)| stat)));
    }

    #[test]
    fn a_cpu_that_goes_meanwhile_is_told() {
        let [two, one] = [CpuSet::from_iter([0, 1]), CpuSet::from_iter([0])];
        assert_eq!(same_cpus(&two, &two.clone()), Ok(()));
        let failure = same_cpus(&two, &one).unwrap_err().to_string();
        assert!(failure.starts_with("CPUs went from 0-1 to 0 meanwhile"), "{failure}");
    }
}
