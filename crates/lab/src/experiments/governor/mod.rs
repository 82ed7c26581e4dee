//! CPU cost of fast wake-ups, and their latency.
//!
//! One fiber, or with `futex` one kernel thread, waits; another kernel thread, the waker, wakes it
//! at a fixed rate. With `rate=0` it stays suspended.
//!
//! * **Latency**: from just before the wake (`unpark`, or store and `futex_wake`) to the first
//!   instruction after the wait, both by `CLOCK_MONOTONIC`. The values are the median, the 99th
//!   percentile and the maximum of all wakes of a sample.
//! * **CPU**: CPU time of the whole process, in per cent of one CPU, without that of the waker's
//!   own thread. At high rates the waker spins to keep its schedule, which must not be charged to
//!   the method. The cost of the waking call for its caller belongs to the waker, so the figure
//!   excludes it.
//! * **Open loop**: wakes are due at times fixed beforehand. A delayed waker catches up at once.
//!   Wakes that find the waiter still awake are wakes as well, and their latency counts.
//! * **Lost wakes** are faults. With gaps of 50 ms and more, the waker waits until each wake is
//!   seen before it sends the next, which would hide a lost wake. With smaller gaps, a lost wake
//!   has the latency of its successor.
//!
//! The waiter is on the first allowed CPU, the waker on the last. With `agents=1` the runtime has
//! one worker. With more agents it has as many workers, and the waker shares its CPU with one of
//! them.

mod clients;
mod figures;
mod measure;
mod schedule;
mod wakes;

use std::time::Duration;

use daiko::Preset;

use self::clients::Waiter;
use self::figures::FUTEX;
use self::measure::WakeLimits;
use self::schedule::Schedule;
use crate::kit::{Experiment, List, Measure, Options, Params, Plan, Rounds, Skip, host};

const PRESETS: [(&str, Preset); 3] =
    [("latency", Preset::Latency), ("balanced", Preset::Balanced), ("power", Preset::Power)];

/// Wakes per second; 0 is idle.
const RATES: [u64; 4] = [0, 10, 1000, 100_000];

/// No thread is kept from a CPU for seconds, and a waker that is often late does not keep the rate
/// of its point.
const PATIENCE: WakeLimits =
    WakeLimits { lost: Duration::from_secs(2), late: Duration::from_millis(250) };

/// CPU use against wake latency.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "CPU used while waiting against wake latency, by preset, beside a thread on a futex",
    sizes: &["rate"],
    lists: &[List::Workers],
    methods: || methods().collect(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

fn methods() -> impl Iterator<Item = &'static str> {
    PRESETS.into_iter().map(|(name, _)| name).chain([FUTEX])
}

fn cases(plan: &mut Plan<'_>) {
    for rate in RATES {
        for method in methods() {
            let agents = if method == FUTEX { vec![None] } else { agents(plan.options) };
            for agents in agents {
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

/// Numbers of agents that may poll at once. Each agent has a worker.
fn agents(options: &Options) -> Vec<Option<usize>> {
    let cpus = host::cpus();
    let own = if options.quick { vec![1] } else { vec![1, cpus] };
    let mut list = options.workers.clone().unwrap_or(own);
    list.dedup();
    list.into_iter().map(Some).collect()
}

/// The waiter of a case.
fn waiter(method: &str, params: &Params) -> Option<Waiter> {
    if method == FUTEX {
        return Some(Waiter::Thread);
    }
    let (_, preset) = PRESETS.into_iter().find(|(name, _)| *name == method)?;
    Some(Waiter::Fiber { preset, agents: params.size("agents")? })
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
        assert_eq!(plan.len(), RATES.len() * (PRESETS.len() * agents + 1));
        let first: Vec<String> = plan.iter().take(2).map(|p| p.case.to_string()).collect();
        assert_eq!(first[0], "governor latency rate=0 agents=1");
        let futex = plan.iter().find(|planned| planned.case.method == FUTEX).unwrap();
        assert_eq!(futex.case.to_string(), "governor futex rate=0");
    }

    #[test]
    fn a_sample_waits_as_its_params_say() {
        let options = Options { workers: Some(vec![3]), ..Options::default() };
        let plan = EXPERIMENT.plan(&options);
        let waiters: Vec<_> = plan
            .iter()
            .take(4)
            .map(|planned| waiter(&planned.case.method, &planned.case.params))
            .collect();
        let fiber = |preset| Some(Waiter::Fiber { preset, agents: 3 });
        assert_eq!(
            waiters,
            [
                fiber(Preset::Latency),
                fiber(Preset::Balanced),
                fiber(Preset::Power),
                Some(Waiter::Thread)
            ]
        );
    }
}
