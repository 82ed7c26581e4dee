//! CPU cost of fast wake-ups, and their latency.
//!
//! One fiber, with `futex` one kernel thread, with `tokio` and `tokio-current` one task, waits; a
//! kernel thread, the waker, wakes it at a fixed rate. With `rate=0` it stays suspended. The
//! runtime of a fiber polls as a preset says, or for a goal: `target-T` is a latency target,
//! `budget-C` a CPU budget.
//!
//! * **Latency**: from just before the wake (`unpark`, `notify_one`, or store and `futex_wake`) to
//!   the first instruction after the wait, both by `CLOCK_MONOTONIC`. The values are the median,
//!   the 99th percentile and the maximum of all wakes of a sample.
//! * **CPU**: CPU time of the whole process, in per cent of one CPU, without that of the waker's
//!   own thread. At high rates the waker spins to keep its schedule, which must not be charged to
//!   the method. The cost of the waking call for its caller belongs to the waker, so the figure
//!   excludes it.
//! * **Open loop**: wakes are due at times fixed beforehand. A delayed waker catches up at once.
//!   Wakes that find the waiter still awake are wakes as well, and their latency counts.
//! * **Lost wakes** are faults. With gaps of 50 ms and more, the waker waits until each wake is
//!   seen before it sends the next, which would hide a lost wake. With smaller gaps, a lost wake
//!   has the latency of its successor.
//! * **Lead**: the schedule begins with 300 ms that do not count, since a goal sets the spin of
//!   agents by the times of the last 100 ms.
//!
//! The waiter is on the first allowed CPU, the waker on the last. With `agents=1` the runtime has
//! one worker. With more agents it has as many workers, and the waker shares its CPU with one of
//! them. Goals are measured with the fewest agents only. The multi-threaded runtime of tokio has
//! one worker.

mod clients;
mod figures;
mod measure;
mod schedule;
mod wakes;

use std::time::Duration;

use daiko::Preset;

use self::clients::{Polling, Waiter};
use self::figures::{FUTEX, TOKIO, TOKIO_CURRENT};
use self::measure::WakeLimits;
use self::schedule::Schedule;
use crate::kit::{Experiment, List, Measure, Options, Params, Plan, Rounds, Skip, host};

const PRESETS: [(&str, Polling); 3] = [
    ("latency", Polling::By(Preset::Latency)),
    ("balanced", Polling::By(Preset::Balanced)),
    ("power", Polling::By(Preset::Power)),
];

/// The targets lie below, near and above the cost of a sleep on most machines.
const GOALS: [(&str, Polling); 6] = [
    ("target-10us", Polling::Within(Duration::from_micros(10))),
    ("target-50us", Polling::Within(Duration::from_micros(50))),
    ("target-500us", Polling::Within(Duration::from_micros(500))),
    ("budget-0.01", Polling::For(0.01)),
    ("budget-0.1", Polling::For(0.1)),
    ("budget-0.5", Polling::For(0.5)),
];

/// The goals of a quick run.
const QUICK_GOALS: [&str; 2] = ["target-10us", "budget-0.1"];

const PEERS: [(&str, Waiter); 3] =
    [(FUTEX, Waiter::Thread), (TOKIO, Waiter::Task), (TOKIO_CURRENT, Waiter::CurrentTask)];

/// Wakes per second; 0 is idle.
const RATES: [u64; 4] = [0, 10, 1000, 100_000];

/// No thread is kept from a CPU for seconds, and a waker that is often late does not keep the rate
/// of its point.
const PATIENCE: WakeLimits =
    WakeLimits { lost: Duration::from_secs(2), late: Duration::from_millis(250) };

/// CPU use against wake latency.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "CPU used while waiting against wake latency, by preset and goal, beside futex and tokio",
    sizes: &["rate"],
    lists: &[List::Workers],
    methods: || methods().collect(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

fn methods() -> impl Iterator<Item = &'static str> {
    let ours = PRESETS.into_iter().chain(GOALS).map(|(name, _)| name);
    ours.chain(PEERS.into_iter().map(|(name, _)| name))
}

fn cases(plan: &mut Plan<'_>) {
    for rate in RATES {
        for method in methods() {
            for agents in agents(method, plan.options) {
                let params = Params::new().with("rate", rate).with_some("agents", agents);
                plan.add(method, params, rounds(rate, plan.options.quick));
            }
        }
    }
}

fn rounds(rate: u64, quick: bool) -> Result<Rounds, Skip> {
    match Schedule::spins(rate) && host::cpus() < 2 {
        true => Err(Skip::new("the waker spins, on a CPU of its own: allow two or more")),
        false => Ok(Rounds::Fixed(Schedule::rounds(rate, quick))),
    }
}

/// Measures one schedule. Its length follows from the schedule, independently of the limit.
fn measure(method: &str, params: &Params) -> Option<Measure> {
    let waiter = waiter(method, params)?;
    let rate = params.number("rate")?;
    Some(Box::new(move |effort| {
        measure::sample(waiter, Schedule::new(rate, effort.rounds), PATIENCE)
    }))
}

/// Numbers of agents that may poll at once, for each case of `method`; `None` for a peer. Each
/// agent has a worker.
fn agents(method: &str, options: &Options) -> Vec<Option<usize>> {
    let is_of = |table: &[(&str, Polling)]| table.iter().any(|(name, _)| *name == method);
    let all = all_agents(options).into_iter();
    match (is_of(&PRESETS), is_of(&GOALS)) {
        (true, _) => all.map(Some).collect(),
        (_, true) if options.quick && !QUICK_GOALS.contains(&method) => vec![],
        (_, true) => all.min().into_iter().map(Some).collect(),
        _ => vec![None],
    }
}

fn all_agents(options: &Options) -> Vec<usize> {
    let cpus = host::cpus();
    let own = if options.quick { vec![1] } else { vec![1, cpus] };
    let mut list = options.workers.clone().unwrap_or(own);
    list.dedup();
    list
}

/// The waiter of a case.
fn waiter(method: &str, params: &Params) -> Option<Waiter> {
    if let Some((_, peer)) = PEERS.into_iter().find(|(name, _)| *name == method) {
        return Some(peer);
    }
    let mut ours = PRESETS.into_iter().chain(GOALS);
    let (_, polling) = ours.find(|(name, _)| *name == method)?;
    Some(Waiter::Fiber { polling, agents: params.size("agents")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::{Case, Reading, Sample, Unit};

    /// Like [`Experiment::sample`], but with more patience: other programs use the machine that
    /// tests run on.
    fn sample(case: &Case, rounds: u64) -> Sample {
        let schedule = Schedule::new(case.params.number("rate").unwrap(), rounds);
        let minute = Duration::from_secs(60);
        let patience = WakeLimits { lost: minute, late: minute };
        measure::sample(waiter(&case.method, &case.params).unwrap(), schedule, patience)
            .expect("a sample")
    }

    fn kinds(readings: &[Reading]) -> Vec<(Unit, Option<&str>)> {
        readings.iter().map(|reading| (reading.unit, reading.stat.as_deref())).collect()
    }

    #[test]
    fn wakes_have_a_latency_and_a_price() {
        for planned in EXPERIMENT.plan(&Options::default()) {
            let rate = planned.case.params.number("rate").unwrap();
            if rate < 1000 || planned.rounds.is_err() {
                continue;
            }
            let sample = sample(&planned.case, 20);
            assert_eq!(sample.rounds, 20, "{}", planned.case);
            assert_eq!(
                kinds(&sample.readings),
                [
                    (Unit::CpuPercent, None),
                    (Unit::Nanoseconds, Some("p50")),
                    (Unit::Nanoseconds, Some("p99")),
                    (Unit::Nanoseconds, Some("max")),
                ]
            );
            let values: Vec<f64> = sample.readings.iter().map(|reading| reading.value).collect();
            assert!(values[0] >= 0.0, "{}: {values:?}", planned.case);
            assert!(values[1] > 0.0 && values[1..].is_sorted(), "{}: {values:?}", planned.case);
        }
    }

    #[test]
    fn idling_has_a_price_only() {
        for planned in EXPERIMENT.plan(&Options { quick: true, ..Options::default() }) {
            if planned.case.params.number("rate") == Some(0) {
                let sample = sample(&planned.case, 20);
                assert_eq!(kinds(&sample.readings), [(Unit::CpuPercent, None)], "{}", planned.case);
                assert!(sample.elapsed >= Duration::from_millis(20), "{}", planned.case);
            }
        }
    }

    #[test]
    fn every_preset_has_every_rate_with_one_agent_and_with_all() {
        let plan = EXPERIMENT.plan(&Options::default());
        let agents = if host::cpus() == 1 { 1 } else { 2 };
        let others = GOALS.len() + PEERS.len();
        assert_eq!(plan.len(), RATES.len() * (PRESETS.len() * agents + others));
        let first: Vec<String> = plan.iter().take(2).map(|p| p.case.to_string()).collect();
        assert_eq!(first[0], "governor latency rate=0 agents=1");
        let futex = plan.iter().find(|planned| planned.case.method == FUTEX).unwrap();
        assert_eq!(futex.case.to_string(), "governor futex rate=0");
    }

    #[test]
    fn a_quick_run_has_all_presets_and_peers_and_few_goals() {
        let plan = EXPERIMENT.plan(&Options { quick: true, ..Options::default() });
        let methods = PRESETS.len() + QUICK_GOALS.len() + PEERS.len();
        assert_eq!(plan.len(), RATES.len() * methods);
        assert!(QUICK_GOALS.iter().all(|quick| GOALS.iter().any(|(name, _)| name == quick)));
    }

    #[test]
    fn a_sample_waits_as_its_params_say() {
        let options = Options { workers: Some(vec![3]), ..Options::default() };
        let plan = EXPERIMENT.plan(&options);
        let of = |planned: &crate::kit::Planned| {
            waiter(&planned.case.method, &planned.case.params).expect("a method of the plan")
        };
        let waiters: Vec<_> = plan.iter().take(methods().count()).map(of).collect();
        let fiber = |(_, polling)| Waiter::Fiber { polling, agents: 3 };
        let ours = PRESETS.into_iter().chain(GOALS).map(fiber);
        let all: Vec<_> = ours.chain([Waiter::Thread, Waiter::Task, Waiter::CurrentTask]).collect();
        assert_eq!(waiters, all);
    }

    #[test]
    fn the_name_of_a_goal_says_what_it_is() {
        for (name, polling) in GOALS {
            let said = match polling {
                Polling::By(_) => unreachable!("{name} is no goal"),
                Polling::Within(latency) => format!("target-{}us", latency.as_micros()),
                Polling::For(cpus) => format!("budget-{cpus}"),
            };
            assert_eq!(name, said);
        }
    }
}
