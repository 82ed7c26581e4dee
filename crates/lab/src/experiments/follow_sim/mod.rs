//! Wake-ups whose interrupts follow their tasks, simulated: P3.
//!
//! Receive Flow Steering has a flow's packets processed on the CPU where its task last asked for data, and switches late. Under the policy of
//! kernels a task that has moved is therefore taken back by the next wake-up, and so on: *unintended* migrations, here *swaps*. The
//! simulator counts them under that policy and under P3's, both those of [`daiko_core::place`].
//!
//! # What is assumed
//!
//! 1. **Packets** come in bursts; the bursts of each flow are a Poisson process, their lengths geometrically distributed, and their packets
//!    a fixed gap apart. They come whatever the tasks do (open loop). The network card's own interrupt costs nothing.
//! 2. **Steering** is that of `get_rps_cpu` in the kernel's `net/core/dev.c`. One table has where the flow's task last called the socket; it calls
//!    when it has read a packet, so a task that was woken elsewhere is known to be there only when it has read. Another has the CPU that
//!    gets the flow's packets, and how far that one's backlog was filled behind the last. The CPU is changed when a packet comes,
//!    and only if the backlog has been processed that far. **Lag** is in addition, in microseconds: what a task's call has
//!    written into the table takes so long to reach whoever steers (a card that is told by a work item, or that samples). One
//!    change is on its way at a time. Without steering (`steering=hash`) a flow's CPU is always the same.
//! 3. **Interrupts** take a fixed time for each packet, before all tasks of their CPU, and wake the task from there if it sleeps. A CPU at an
//!    interrupt is idle to the policy if it has no task, as in the kernel.
//! 4. **Tasks**, one for each flow, wait in turn for their CPU, with a time slice. Each packet takes an exponentially distributed time to read, and a
//!    fixed one more if the task first runs on another CPU.
//! 5. **What makes tasks move at first** is that the waking CPU is not idle: another flow's task runs there, or *other load*, bursts of
//!    work that stay on their CPU and that woken tasks preempt. A balancer moves a waiting task from the longest queue to an
//!    idle CPU every few milliseconds.
//!
//! All CPUs are alike and of one domain: no caches, no hardware threads that share a core.
//!
//! # What is counted
//!
//! `migrations`, of wake-ups and balancer; `unintended`, the swaps among them; `settle-mean` and `settle-max`, how many swaps of a task
//! follow each other until a wake-up that is none, and `settled-N`, which part of them takes `N`; `p50` and `p99`, the time from a packet's
//! arrival until the task that it wakes runs; `cpu`, the CPU time of interrupts and tasks. All of it is in simulated time, and the same for the same seed
//! on any machine. `speed` is how many wake-ups the simulator does in a second of this machine's CPU time; the fewer packets find their task awake, and the less other
//! load there is, the more of its events are wake-ups (`burst=1`, `load=0`).
//!
//! # Whether P3's figures appear
//!
//! They do, together, under the assumptions of [`Model::default`]: trains of 20 packets 30 us apart, 59 us of work for each, CPUs half of whose time other
//! bursts of 25 us take, and a lag of 20 to 30 us, which is near the gap. Then 8 to 9% of migrations are unintended, it takes 1.2 wake-ups to settle
//! and 5 to 8 at most (more in a longer run), P3's policy leaves 52 to 53% of migrations, and their number per second is within a third of P3's.
//!
//! * Swaps need a wake-up that was on its way when the task moved: the lag, or a backlog, must be about as long as from one wake-up to
//!   the next. Much longer, wake-ups and steering no longer alternate: swaps come one at a time (1.0 wake-ups). Much shorter, there are
//!   hardly any: 2% without lag.
//! * Without lag the backlog alone does it where interrupts take as long as the gaps of a train (5.5 us and 7.9 us, trains of 4: 9%, 1.20,
//!   10, -45%), at fifty times P3's migrations per second.
//! * Most of what P3's policy saves are not swaps: those are 8%, the change is -48%. It also keeps a task that would go on to a third CPU
//!   since the waking one is busy, and each move that is saved leaves some CPU free for another task. So the change grows with what else the
//!   CPUs do: with the trains of above -19% without other load, -31% with 10%, -42% with 30%, -47% with 50%. Packets that come alone, 30 per second of each
//!   flow and no other load, give -62% with hardly a swap.
//! * What it costs: who is kept on a busy CPU waits there. The 99th percentile of latencies is two to three times that of the existing policy
//!   with the other load of above, and much more without.
//! * P3's 5% of CPU time do not appear: they would be 150 us for each migration that is avoided, and the model has 2 us.
//!
//! The example `follow-search` of this crate found these, and finds others.

mod agenda;
mod cpus;
mod draw;
mod figures;
mod machine;
mod model;
mod outcome;
mod published;
pub mod replay;
mod simulate;
mod steering;
mod tally;
pub mod trace;

use std::time::Instant;

use daiko_sys::clock::thread_cpu_ns;

pub use self::model::{MOST_CPUS, MOST_FLOWS, Model, Policy, Steering};
pub use self::outcome::Outcome;
pub use self::simulate::{record, simulate};
pub use self::tally::{MOST_SETTLING, Tally};
use crate::kit::{Experiment, Measure, Params, Plan, Reading, Rounds, Sample, Unit};

const METHODS: [(&str, Policy); 2] = [("existing", Policy::Existing), ("follow", Policy::FOLLOW)];

/// In microseconds.
const LAGS: [u64; 9] = [0, 5, 10, 20, 30, 50, 100, 1000, 10_000];
const LAGS_QUICK: [u64; 6] = [0, 10, 20, 50, 200, 10_000];
/// The model's own rate comes first; times these over a hundred are the others'.
const RATES_PERCENT: [u64; 3] = [100, 50, 150];
const CPUS: [u16; 4] = [2, 4, 32, 128];
const LAGS_OF_CPUS: [u64; 2] = [0, 20];

/// A sample simulates so many packets, whatever that takes: its figures are the same on all machines.
const PACKETS: u64 = 1_000_000;
const PACKETS_QUICK: u64 = 250_000;

/// P3's settlings take up to so many wake-ups; what takes longer is told together.
const SETTLINGS: usize = 9;

/// Wake-ups by existing policy and P3's, simulated.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: published::NAME,
    about: "a simulator of wake-ups whose interrupts follow their tasks (P3): migrations, and the unintended ones among them",
    sizes: &["lag", "rate", "flows"],
    lists: &[],
    methods: || METHODS.iter().map(|(name, _)| *name).collect(),
    cases,
    measure,
    published: published::points,
    sections: figures::sections,
};

fn cases(plan: &mut Plan<'_>) {
    let packets = if plan.options.quick { PACKETS_QUICK } else { PACKETS };
    for model in models(plan.options.quick) {
        for (method, _) in METHODS {
            plan.add(method, params(&model), Ok(Rounds::Fixed(packets)));
        }
    }
}

/// A round is a packet. All but `speed` is the same each time.
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

/// P3's machine with every lag, and at other rates; then other numbers of CPUs, with as many flows for each; then packets that
/// come alone, each of which wakes a task, on CPUs that have nothing else to do; last no steering.
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

fn rfs(lag_us: u64) -> Steering {
    Steering::Rfs { lag_ns: lag_us.saturating_mul(1000) }
}

fn params(model: &Model) -> Params {
    let base = Model::default();
    let params = Params::new()
        .with("cpus", u64::from(model.cpus))
        .with("flows", u64::from(model.flows))
        .with("rate", model.rate)
        .with_some("burst", (model.burst != base.burst).then_some(u64::from(model.burst)))
        .with_some("load", (model.load != base.load).then_some(model.load));
    match model.steering {
        Steering::Rfs { lag_ns } => params.with("lag", lag_ns / 1000),
        Steering::Hash => params.with("steering", "hash"),
    }
}

/// The model of a point. `burst`, `load` and `seed` may be given, and are the model's own otherwise.
fn from_params(params: &Params, policy: Policy) -> Option<Model> {
    let base = Model::default();
    let steering = match params.get("steering") {
        None => rfs(params.number("lag")?),
        Some(_) => {
            params.text("steering").filter(|name| *name == "hash").map(|_| Steering::Hash)?
        }
    };
    let optional = |key, own| params.get(key).map_or(Some(own), |_| params.number(key));
    Some(Model {
        cpus: params.number("cpus")?.try_into().ok()?,
        flows: params.number("flows")?.try_into().ok()?,
        rate: params.number("rate")?,
        burst: optional("burst", base.burst.into())?.try_into().ok()?,
        load: optional("load", base.load)?,
        seed: optional("seed", base.seed)?,
        steering,
        policy,
        ..base
    })
}

fn readings(outcome: &Outcome, cpu_ns: u64) -> Vec<Reading> {
    let tally = &outcome.tally;
    let seconds = outcome.seconds().max(f64::MIN_POSITIVE);
    let each_second =
        |stat, count: u64| Reading::stat(Unit::PerSecond, stat, count as f64 / seconds);
    let mut readings = vec![
        each_second("wakes", tally.wakes),
        each_second("migrations", tally.migrations()),
        each_second("swaps", tally.swaps),
        Reading::stat(Unit::Ratio, "unintended", tally.unintended()),
        Reading::stat(Unit::Count, "settle-max", tally.settle_max() as f64),
        Reading::stat(Unit::CpuPercent, "cpu", outcome.busy_ns as f64 / seconds / 1e7),
        Reading::rate("speed", (outcome.warm_up + tally.wakes) as f64, cpu_ns),
    ];
    readings.extend(outcome.latencies.readings(&[("p50", 500), ("p99", 990)]));
    if let Some(mean) = tally.settle_mean() {
        readings.push(Reading::stat(Unit::Count, "settle-mean", mean));
        readings.extend(histogram(tally.settlings()));
    }
    readings
}

/// Which part of settlings took so many wake-ups.
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
