//! A ring, and an echo server, where CPUs are scarce: more workers than CPUs, busy processes beside
//! them, a quota.
//!
//! `threads` waiters form one cycle, in shuffled order, as in the experiment `ring`: each waits,
//! checks its datum, passes it to its successor and wakes it. One hop is the time of a lap divided
//! by `threads`. Each method is the plain program of its own documentation: the runtime places the
//! waiters, and the kernel places the workers.
//!
//! - `daiko`: a fiber of the default kind (own thread-locals, pinned) for each waiter; it parks.
//! - `daiko-own-mover`: the same with migratable fibers.
//! - `tokio`: a task and a `Notify` for each waiter, in the multi-threaded runtime with as many
//!   worker threads as workers.
//! - `go`: a goroutine and a channel for each waiter; `GOMAXPROCS` is the number of workers.
//!
//! | parameter | |
//! |---|---|
//! | `threads` | waiters in the ring |
//! | `workers` | workers of the library, however many CPUs the process may use |
//! | `preset` | Daiko's: balanced, power, latency; without it, the program sets none |
//! | `busy` | processes that compute without end beside the process under test |
//! | `quota` | CPUs that the process under test gets: 0.5, 1, 1.5 |
//! | `quota-by` | its means: control-group, stops |
//!
//! 1. A sample is a process. It makes a control group, if there is a quota, and starts the busy
//!    processes; they die with it, also if the lab is interrupted.
//! 2. It forks the process under test, which enters the group and then starts its runtime. So the
//!    quota and the load touch nothing else of the lab.
//! 3. The ring runs until a lap has ended after the whole length of a sample (half a second if
//!    quick, otherwise a second), which is several periods of a quota. The time in which a runtime
//!    notices the lack of CPUs is a part of it.
//!
//! Points with `connections` are of an echo server instead, under a quota or without: 50
//! connections, two workers, the client of the experiment `serve` in a process outside of the
//! quota. It spins on the second CPU, so that the server has all CPUs but one on average. The
//! readings are those of `serve`: `throughput` and CPU times at full load, `p50`, `p99` and `p999`
//! of requests that are due at random times, at half of that throughput.
//!
//! Beside the sweep of workers, all points have two workers. A quota is that of a control group
//! with a period of 100 ms (`cpu.max` or `cpu.cfs_quota_us`), which takes the right to make one.
//! Without it, half a CPU is imitated by stops (`SIGSTOP`, `SIGCONT`): the process runs for 50 ms,
//! and is stopped for 50 ms. It cannot see such a quota. All CPUs are stopped at once, so more than
//! half a CPU cannot be imitated, and is left out.

mod busy;
mod control_group;
mod echo;
mod fibers;
mod figures;
mod goroutines;
mod method;
mod point;
mod quota;
mod sample;
mod stops;

use std::time::Duration;

use daiko::Preset;

use self::echo::EchoSpec;
use self::method::{METHODS, Method};
use self::point::{FEW_WORKERS, ScarceSpec};
use self::quota::{Limit, Quota};
use crate::kit::{Choice, Experiment, List, Measure, Options, Params, Plan, Rounds};

/// Waiters in the ring.
const THREADS: [usize; 2] = [10, 1000];
const WORKERS: [usize; 6] = [1, 2, 3, 4, 8, 16];
const WORKERS_QUICK: [usize; 4] = [1, 2, 4, 16];
const BUSY: [usize; 3] = [1, 2, 4];
const BUSY_QUICK: [usize; 1] = [2];
/// Busy processes beside the presets.
const BUSY_BESIDE_PRESETS: usize = 2;

/// Length of a sample in milliseconds: whole periods of a quota.
const LENGTH: u64 = 1000;
const LENGTH_QUICK: u64 = 500;

/// A ring with more workers than CPUs, beside busy processes, and under a quota.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: figures::NAME,
    about: "a ring, and an echo, with more workers than CPUs, beside busy processes, under a quota of CPU",
    sizes: &["threads", "connections"],
    lists: &[List::Threads, List::Workers],
    methods: || METHODS.map(|method| method.name).into(),
    cases,
    measure,
    published: Vec::new,
    sections: figures::sections,
};

/// Plans all points. Those of a situation stand together, so that methods are measured side by
/// side.
fn cases(plan: &mut Plan<'_>) {
    let rounds = Rounds::Fixed(if plan.options.quick { LENGTH_QUICK } else { LENGTH });
    let sizes = plan.options.threads.clone().unwrap_or(THREADS.into());
    for situation in situations(plan.options) {
        let limit = situation.quota.map(control_group::choose);
        for &threads in &sizes {
            for method in METHODS.into_iter().filter(|method| situation.concerns(method)) {
                let (limit, is_possible) = limit.clone().unzip();
                let spec = situation.spec(threads, limit);
                let supports = method.supports().and(is_possible.unwrap_or(Ok(())));
                plan.add(method.name, spec.params(), supports.map(|()| rounds));
            }
        }
    }
    echoes(plan, rounds);
}

/// Plans an echo without a quota, with less than a CPU, and with more.
fn echoes(plan: &mut Plan<'_>, rounds: Rounds) {
    for quota in [None, Some(Quota::Half), Some(Quota::OneAndHalf)] {
        let (limit, is_possible) = quota.map(control_group::choose).unzip();
        let spec = EchoSpec { connections: echo::CONNECTIONS, limit };
        for (method, server) in echo::SERVERS {
            let supports = server.supports().and(is_possible.clone().unwrap_or(Ok(())));
            plan.add(method, spec.params(), supports.map(|()| rounds));
        }
    }
}

/// Parameters that several methods have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Situation {
    workers: usize,
    preset: Option<Preset>,
    busy: usize,
    quota: Option<Quota>,
}

impl Situation {
    /// Workers without other load.
    fn plain(workers: usize) -> Self {
        Self { workers, preset: None, busy: 0, quota: None }
    }

    fn concerns(&self, method: &Method) -> bool {
        self.preset.is_none() || method.has_presets()
    }

    fn spec(&self, threads: usize, limit: Option<Limit>) -> ScarceSpec {
        let Self { workers, preset, busy, .. } = *self;
        ScarceSpec { threads, workers, preset, busy, limit }
    }
}

/// The sweep of workers, then busy processes, presets and quotas with few workers.
fn situations(options: &Options) -> Vec<Situation> {
    let quick = options.quick;
    let workers = if quick { &WORKERS_QUICK[..] } else { &WORKERS };
    let workers = options.workers.clone().unwrap_or(workers.into());
    let few = Situation::plain(FEW_WORKERS);
    let busy = if quick { &BUSY_QUICK[..] } else { &BUSY };
    let mut all: Vec<Situation> = workers.into_iter().map(Situation::plain).collect();
    all.extend(busy.iter().map(|&busy| Situation { busy, ..few }));
    for busy in [0, BUSY_BESIDE_PRESETS] {
        let presets = Preset::all().map(Some);
        all.extend(presets.map(|preset| Situation { preset, busy, ..few }));
    }
    all.extend(Quota::all().map(|quota| Situation { quota: Some(quota), ..few }));
    // The base of the other situations.
    if !all.contains(&few) {
        all.push(few);
    }
    all
}

fn measure(method: &str, params: &Params) -> Option<Measure> {
    if params.get("connections").is_some() {
        let (server, spec) = (echo::server(method)?, EchoSpec::from_params(params)?);
        return Some(Box::new(move |effort| {
            spec.sample(server, Duration::from_millis(effort.rounds).min(effort.limit))
        }));
    }
    let method = METHODS.into_iter().find(|known| known.name == method)?;
    let spec = ScarceSpec::from_params(params)?;
    Some(Box::new(move |effort| {
        let length = Duration::from_millis(effort.rounds).min(effort.limit);
        sample::sample(&method, &spec, length, effort.limit)
    }))
}

#[cfg(test)]
mod tests;
