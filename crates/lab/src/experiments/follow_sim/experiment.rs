//! The experiment: which models are simulated, and what is read off them.

use std::time::Instant;

use daiko_sys::clock::thread_cpu_ns;

use super::{Model, Outcome, Policy, Steering, simulate};
use crate::kit::{
    Case, Effort, Experiment, Failure, List, Options, Params, Planned, Reading, Rounds, Sample,
    Unit,
};

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
pub struct FollowSim;

impl Experiment for FollowSim {
    fn name(&self) -> &'static str {
        "follow-sim"
    }

    fn about(&self) -> &'static str {
        "a simulator of wake-ups whose interrupts follow their tasks (P3): migrations, and the unintended ones among them"
    }

    fn methods(&self) -> Vec<&'static str> {
        METHODS.iter().map(|(name, _)| *name).collect()
    }

    fn takes(&self, _: List) -> bool {
        false
    }

    fn plan(&self, options: &Options) -> Vec<Planned> {
        let packets = if options.quick { PACKETS_QUICK } else { PACKETS };
        let wanted = || METHODS.iter().filter(|(method, _)| options.wants(method));
        let planned = |params: &Params, method: &str| Planned {
            case: Case {
                experiment: "follow-sim".into(),
                method: method.into(),
                params: params.clone(),
            },
            rounds: Ok(Rounds::Fixed(packets)),
        };
        let models = models(options.quick);
        let of_model = |model: &Model| {
            let params = params(model);
            wanted().map(|(method, _)| planned(&params, method)).collect::<Vec<_>>()
        };
        models.iter().flat_map(of_model).collect()
    }

    /// A round is a packet. All but `speed` is the same each time.
    fn sample(&self, case: &Case, effort: Effort) -> Result<Sample, Failure> {
        let policy = METHODS.iter().find(|(method, _)| *method == case.method);
        let model = policy.and_then(|(_, policy)| from_params(&case.params, *policy));
        let model =
            model.ok_or_else(|| Failure::Broken(format!("{case}: there is no such point")))?;
        let (start, start_cpu) = (Instant::now(), thread_cpu_ns());
        let outcome = simulate(&model, effort.rounds.max(1));
        let outcome = outcome.map_err(|error| Failure::Broken(format!("{case}: {error}")))?;
        let elapsed = start.elapsed();
        let readings = readings(&outcome, thread_cpu_ns() - start_cpu);
        Ok(Sample { rounds: effort.rounds, elapsed, readings })
    }
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
    let mut params = Params::new()
        .with("cpus", u64::from(model.cpus))
        .with("flows", u64::from(model.flows))
        .with("rate", model.rate);
    let base = Model::default();
    for (key, own, usual) in
        [("burst", model.burst.into(), base.burst.into()), ("load", model.load, base.load)]
    {
        if own != usual {
            params = params.with(key, own);
        }
    }
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
        Reading::stat(
            Unit::PerSecond,
            "speed",
            (outcome.warm_up + tally.wakes) as f64 * 1e9 / cpu_ns.max(1) as f64,
        ),
    ];
    let latencies = [("p50", 500), ("p99", 990)].into_iter();
    readings.extend(latencies.filter_map(|(stat, per_mille)| {
        Some(Reading::stat(Unit::Nanoseconds, stat, outcome.latency_ns(per_mille)? as f64))
    }));
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
