//! Simulation of wake-ups by interrupts that follow the woken tasks, after P3.
//!
//! Receive Flow Steering processes a flow's packets on the CPU where its task last asked for data,
//! and switches late. Under the policy of kernels, a task that has moved is therefore taken back by
//! the next wake-up, and so on: *unintended* migrations, here *swaps*. The simulator counts them
//! under that policy and under P3's, both as implemented by [`daiko_core::place`].
//!
//! # Assumptions
//!
//! 1. **Packets** come in bursts. The bursts of each flow are a Poisson process, their lengths are
//!    geometrically distributed, and their packets are a fixed gap apart. They arrive independently
//!    of the tasks (open loop). The network card's own interrupt costs nothing.
//! 2. **Steering** is that of `get_rps_cpu` in the kernel's `net/core/dev.c`. One table holds the
//!    CPU where the flow's task last called the socket. A task calls when it has read a packet, so
//!    a task that was woken elsewhere is known to be there only after it has read. A second table
//!    holds the CPU that gets the flow's packets, and how far its backlog was filled behind the
//!    last packet. The CPU changes when a packet arrives, and only if the backlog has been
//!    processed that far. **Lag** comes in addition, in microseconds: the entry that a task's call
//!    writes into the table takes this long to reach the steering unit (a card that is informed by
//!    a work item, or that samples). One change is in transit at a time. Without steering
//!    (`steering=hash`) a flow's CPU never changes.
//! 3. **Interrupts** take a fixed time for each packet, before all tasks of their CPU, and wake the
//!    task from there if it sleeps. As in the kernel, a CPU in an interrupt counts as idle for the
//!    policy if it has no task.
//! 4. **Tasks**, one for each flow, queue for their CPU in FIFO order, with a time slice. Reading a
//!    packet takes an exponentially distributed time, and a fixed time more if the task first runs
//!    on another CPU.
//! 5. **The first move** of a task happens because the waking CPU is not idle: another flow's task
//!    runs there, or *other load*, bursts of work that stay on their CPU and that woken tasks
//!    preempt. A balancer moves a waiting task from the longest queue to an idle CPU every few
//!    milliseconds.
//!
//! All CPUs are alike and of one domain: there are no caches and no hardware threads that share a
//! core.
//!
//! # Figures
//!
//! - `migrations`: by wake-ups and balancer.
//! - `unintended`: the swaps among them.
//! - `back-N`: wake-ups that put a task on a CPU where it ran at most `N` wake-ups before. Swaps
//!   are among those of every `N`.
//! - `settle-mean` and `settle-max`: the number of swaps of a task that follow each other until a
//!   wake-up that is no swap. `settled-N` is the part of these runs with length `N`.
//! - `p50` and `p99`: the time from a packet's arrival until the task that it wakes runs.
//! - `cpu`: the CPU time of interrupts and tasks.
//! - `speed`: wake-ups simulated per second of this machine's CPU time. The fewer packets find
//!   their task awake, and the less other load there is, the more of the simulator's events are
//!   wake-ups (`burst=1`, `load=0`).
//!
//! All figures except `speed` are in simulated time, and equal for the same seed on any machine.
//!
//! # Parameters of other origin
//!
//! [`ParameterSet`] has parameters from published figures of P3's hardware, and from a trace of an
//! emulated guest. P3's figures are held out from both. With 250,000 packets:
//!
//! * **Hardware.** Agrees: P3's policy leaves 54% of the migrations per second (P3: 52%).
//!   Disagrees: 0.1% of migrations are unintended (8%), each alone (1.21), and there are five times
//!   as many migrations per second. For each wake-up the policy leaves 80%, as a task that waits
//!   finds more packets when it runs, and is woken by a third fewer of them. Its p99 is 1.08 times
//!   as long.
//! * **Guest, on P3's CPUs.** Agrees: 1,869 migrations per second (2,200), of which the policy
//!   leaves 62%. Disagrees: 1.9% are unintended, in runs of 1.03.
//! * **Guest, on its own CPUs,** where the truth is known from two traces, one under each policy:
//!   for each 1,000 wake-ups 501 migrations, 29 of them swaps, and 304 migrations under P3's
//!   policy. The model has 364, 8 and 288: too few swaps, and a third of the saving. A replay of
//!   the first trace tells 272 to 306 under P3's policy (`replay`).
//!
//! So P3's part of swaps needs more than its machine, its network and the kernel's steering as they
//! are modelled here.
//!
//! # Comparison with P3's figures
//!
//! P3's figures appear, together, under the assumptions of [`Model::default`], which were searched
//! for these very figures: trains of 20 packets
//! 30 us apart, 59 us of work for each packet, other bursts of 25 us that take half of the time of
//! the CPUs, and a lag of 20 to 30 us, which is near the gap. Then 8 to 9% of migrations are
//! unintended, settling takes 1.2 wake-ups on average and 5 to 8 at most (more in a longer run),
//! P3's policy leaves 52 to 53% of migrations, and their number per second is within a third of
//! P3's.
//!
//! * A swap needs a wake-up that was in transit when the task moved: the lag, or a backlog, must be
//!   about as long as the time between wake-ups. If it is much longer, wake-ups and steering no
//!   longer alternate, and swaps come one at a time (1.0 wake-ups). If it is much shorter, there
//!   are hardly any: 2% without lag.
//! * Without lag, the backlog alone has this effect where interrupts take about as long as the gaps
//!   of a train (5.5 us and 7.9 us, trains of 4: 9%, 1.20, 10, -45%), at fifty times P3's
//!   migrations per second.
//! * Most of the migrations that P3's policy saves are not swaps: swaps are 8%, the change is -48%.
//!   The policy also keeps a task that would continue on a third CPU because the waking CPU is
//!   busy, and each saved move leaves a CPU free for another task. So the change grows with the
//!   other load of the CPUs: with the trains above, -19% without other load, -31% with 10%, -42%
//!   with 30%, -47% with 50%. Packets that come alone, 30 per second of each flow and without other
//!   load, give -62% with hardly a swap.
//! * The cost: a task that is kept on a busy CPU waits there. The 99th percentile of latencies is
//!   two to three times that of the existing policy with the other load above, and much more
//!   without it.
//! * P3's 5% of CPU time do not appear: they would be 150 us for each avoided migration, and the
//!   model has 2 us.
//!
//! The example `follow-search` of this crate found these figures, and finds more.

mod agenda;
mod cpus;
mod draw;
mod figures;
mod held_out;
mod machine;
mod model;
mod outcome;
mod parameters;
mod published;
pub mod replay;
mod simulate;
mod steering;
mod tally;
pub mod trace;

use std::time::Instant;

use daiko_sys::clock::thread_cpu_ns;

pub use self::model::{MOST_CPUS, MOST_FLOWS, Model, Steering, WakePolicy};
pub use self::outcome::SimOutcome;
pub use self::parameters::ParameterSet;
use self::parameters::{from_params, params, rfs};
pub use self::simulate::{record, simulate};
use self::tally::back;
pub use self::tally::{MOST_SETTLING, SPANS, WakeTally};
use crate::kit::{
    Experiment, Measure, Params, Plan, Reading, Results, Rounds, Sample, Section, Unit,
};

const METHODS: [(&str, WakePolicy); 2] =
    [("existing", WakePolicy::Existing), ("follow", WakePolicy::FOLLOW)];

/// Lags in microseconds.
const LAGS: [u64; 9] = [0, 5, 10, 20, 30, 50, 100, 1000, 10_000];
const LAGS_QUICK: [u64; 6] = [0, 10, 20, 50, 200, 10_000];
/// Rates as percentages of the model's own rate, which comes first.
const RATES_PERCENT: [u64; 3] = [100, 50, 150];
const CPUS: [u16; 4] = [2, 4, 32, 128];
const LAGS_OF_CPUS: [u64; 2] = [0, 20];

/// Packets per sample, however long they take to simulate: the figures are thus equal on all
/// machines.
const PACKETS: u64 = 1_000_000;
const PACKETS_QUICK: u64 = 250_000;

/// Largest length of a settling that has a figure of its own, as the longest of P3. Longer
/// settlings are summed up.
const SETTLINGS: usize = 9;

/// Wake-ups by existing policy and P3's, simulated.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: published::NAME,
    about: "a simulator of wake-ups by interrupts that follow their tasks (P3): all migrations, and unintended migrations",
    sizes: &["lag", "rate", "flows"],
    lists: &[],
    methods: || METHODS.iter().map(|(name, _)| *name).collect(),
    cases,
    measure,
    published: published::points,
    sections,
};

fn sections(results: &Results) -> Vec<Section> {
    let mut sections = figures::sections(results);
    sections.extend(held_out::section(results));
    sections
}

fn cases(plan: &mut Plan<'_>) {
    let packets = if plan.options.quick { PACKETS_QUICK } else { PACKETS };
    let fitted = models(plan.options.quick).into_iter().map(|model| (ParameterSet::Fitted, model));
    for (set, model) in fitted.chain(held_out::models()) {
        for (method, _) in METHODS {
            plan.add(method, params(set, &model), Ok(Rounds::Fixed(packets)));
        }
    }
}

/// Measures one simulation. A round is a packet. All figures except `speed` are equal each time.
fn measure(method: &str, params: &Params) -> Option<Measure> {
    let (_, policy) = METHODS.into_iter().find(|(known, _)| *known == method)?;
    let model = from_params(params, policy)?;
    Some(Box::new(move |effort| {
        let (start, start_cpu) = (Instant::now(), thread_cpu_ns());
        let outcome = simulate(&model, effort.rounds.max(1))?;
        let elapsed = start.elapsed();
        let readings = readings(&outcome, thread_cpu_ns() - start_cpu);
        Ok(Sample { rounds: effort.rounds, elapsed, readings })
    }))
}

/// Lists the models: P3's machine with every lag, and at other rates; other numbers of CPUs with as
/// many flows per CPU; packets that come alone, each of which wakes a task, on CPUs without other
/// load; and no steering.
fn models(quick: bool) -> Vec<Model> {
    let base = Model::default();
    let with_lag = |model: Model, us: u64| Model { steering: rfs(us), ..model };
    let lags: &[u64] = if quick { &LAGS_QUICK } else { &LAGS };
    let rates: &[u64] = if quick { &RATES_PERCENT[..1] } else { &RATES_PERCENT };
    let mut models = Vec::new();
    for percent in rates {
        let model = Model { rate: base.rate * percent / 100, ..base };
        models.extend(lags.iter().map(|us| with_lag(model, *us)));
    }
    for cpus in CPUS {
        let flows = base.flows * u32::from(cpus) / u32::from(base.cpus);
        let model = Model { cpus, flows, ..base };
        models.extend(LAGS_OF_CPUS.map(|us| with_lag(model, us)));
    }
    models.extend(LAGS_OF_CPUS.map(|us| with_lag(Model { burst: 1, load: 0, ..base }, us)));
    models.push(Model { steering: Steering::Hash, ..base });
    models
}

fn readings(outcome: &SimOutcome, cpu_ns: u64) -> Vec<Reading> {
    let tally = &outcome.tally;
    let seconds = outcome.seconds().max(f64::MIN_POSITIVE);
    let each_second =
        |stat: &str, count: u64| Reading::stat(Unit::PerSecond, stat, count as f64 / seconds);
    let mut readings = vec![
        each_second("wakes", tally.wakes),
        each_second("migrations", tally.migrations()),
        each_second("swaps", tally.swaps),
        Reading::stat(Unit::Ratio, "unintended", tally.unintended()),
        Reading::stat(Unit::Count, "settle-max", tally.settle_max() as f64),
        Reading::stat(Unit::CpuPercent, "cpu", outcome.busy_ns as f64 / seconds / 1e7),
        Reading::rate("speed", (outcome.warm_up + tally.wakes) as f64, cpu_ns),
    ];
    readings.extend(
        SPANS.into_iter().zip(tally.returns).map(|(span, count)| each_second(&back(span), count)),
    );
    readings.extend(outcome.latencies.readings(&[("p50", 500), ("p99", 990)]));
    if let Some(mean) = tally.settle_mean() {
        readings.push(Reading::stat(Unit::Count, "settle-mean", mean));
        readings.extend(histogram(tally.settlings()));
    }
    readings
}

/// Relative frequency of each settling length, in wake-ups.
fn histogram(settlings: &[u64]) -> impl Iterator<Item = Reading> {
    let all: u64 = settlings.iter().sum();
    let (short, long) = settlings.split_at(settlings.len().min(SETTLINGS));
    let part = move |name: String, count: u64| {
        Reading::stat(Unit::Ratio, &name, count as f64 / all as f64)
    };
    let short =
        short.iter().zip(1..).map(move |(count, wakes)| part(format!("settled-{wakes}"), *count));
    let long: u64 = long.iter().sum();
    short.chain((long > 0).then(|| part("settled-later".into(), long)))
}

#[cfg(test)]
mod tests;
