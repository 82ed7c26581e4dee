//! The monitor's look at the CPUs that there are: it decides how many workers are active.

use std::time::Duration;

use daiko_core::governor::{ActiveWorkers, IdleCounts, Preset, WorkersLook};
use daiko_sys::clock;
use daiko_sys::cpu::{self, CpuSet};
use daiko_sys::schedstat::{SchedStat, SchedTimes};

use crate::atomic::Ordering;
use crate::call::InCall;
use crate::deadline::Deadline;
use crate::runtime::RuntimeInner;
use crate::worker::Worker;

/// Time between two reads of the quota: some files, which cost as much as several looks.
const QUOTA_NS: u64 = 2_000_000_000;
/// CPU time of the process between two reads of the quota, which bounds no process that uses less.
/// In a process of ten wakes a second, a read every two seconds was a fifth of all CPU time.
const QUOTA_CPU_NS: u64 = 100_000_000;
/// Time between two reads of the times that workers have waited for a CPU: a file for each.
const DELAYS_NS: u64 = 25_000_000;
/// Time between two judgements of how long agents spin.
const ADAPT_NS: u64 = 100_000_000;
/// Time after which idle times are judged though there are not enough.
const IDLE_NS: u64 = 5_000_000_000;
/// Time without a running worker after which one is active, if fibers shall run on few workers: as
/// long as the looks take after which one worker fewer is active.
const REST: Duration = Duration::from_millis(128);

/// The CPUs that a runtime may use.
pub(crate) struct Cpus {
    /// The CPUs that the user has asked for.
    asked: Option<CpuSet>,
    quota: Option<f64>,
}

impl Cpus {
    /// Reads the affinity mask of the calling thread, and the quota.
    pub(crate) fn new(asked: Option<CpuSet>) -> Self {
        Cpus { asked, quota: cpu::quota() }
    }

    pub(crate) fn quota(&self) -> Option<f64> {
        self.quota
    }

    /// Returns the number of workers that have a CPU. Without a mask that can be read, the quota
    /// alone counts.
    pub(crate) fn count(&self) -> u32 {
        let allowed = cpu::allowed().map_or(usize::MAX, |allowed| match &self.asked {
            // None of them may be left: then the kernel runs the workers where it can.
            Some(asked) => allowed.intersection(asked).len(),
            None => allowed.len(),
        });
        cpu::workers_for(allowed, self.quota) as u32
    }
}

/// The monitor's memory of the CPUs and of the workers that run on them.
pub(crate) struct ActiveLooks {
    active: ActiveWorkers,
    /// True if no worker stands by.
    all: bool,
    cpus: Cpus,
    quota_due_ns: u64,
    quota_due_cpu_ns: u64,
    delays_due_ns: u64,
    delays: Vec<Delay>,
    adapt_due_ns: u64,
    idle: IdleWindow,
    /// The end of [`REST`]; `None` if workers ran at the last look.
    rests_at: Option<Deadline>,
}

/// The idle times of agents, from the time of enough of them to the next.
#[derive(Default)]
struct IdleWindow {
    since_ns: u64,
    before: IdleCounts,
    /// The counts and the length of the last window.
    last: (IdleCounts, u64),
}

/// The times of one worker.
#[derive(Default)]
struct Delay {
    stat: Option<(u32, SchedStat)>,
    last: SchedTimes,
}

impl ActiveLooks {
    /// Makes as many workers of a new `runtime` active as have a CPU.
    pub(crate) fn new(runtime: &RuntimeInner, cpus: Cpus, all: bool) -> Self {
        let workers = runtime.worker_count() as u32;
        let active = match all {
            true => ActiveWorkers::new(workers, workers, false),
            false => ActiveWorkers::new(workers, cpus.count(), concentrates(runtime)),
        };
        // No thread runs them yet.
        for worker in &runtime.workers()[..active.count() as usize] {
            worker.active.store(true, Ordering::Relaxed);
        }
        ActiveLooks {
            active,
            all,
            cpus,
            quota_due_ns: clock::monotonic_ns() + QUOTA_NS,
            quota_due_cpu_ns: clock::process_cpu_ns() + QUOTA_CPU_NS,
            delays_due_ns: 0,
            delays: Vec::new(),
            adapt_due_ns: 0,
            idle: IdleWindow::default(),
            rests_at: None,
        }
    }

    /// Looks at the CPUs and the workers: sets how many workers are active, and how long agents
    /// spin.
    pub(super) fn look(&mut self, runtime: &RuntimeInner, now_ns: u64) {
        self.rests_at = None;
        if !self.all {
            self.look_at_workers(runtime, now_ns);
        }
        self.adapt(runtime, now_ns);
    }

    /// Makes one worker active if fibers shall run on few, and none has run for [`REST`]. Called
    /// while no worker runs: no look follows that would tell. Returns the time after which to call
    /// this again, if at all.
    pub(super) fn rest(&mut self, runtime: &RuntimeInner) -> Option<Duration> {
        if self.all || !concentrates(runtime) || self.active.count() == 1 {
            return None;
        }
        if !self.rests_at.get_or_insert_with(|| Deadline::after(REST)).is_over() {
            return Some(REST);
        }
        let count = self.active.rest();
        runtime.set_active(InCall::off_fibers(), count as usize);
        None
    }

    /// Makes as many workers active as can run.
    fn look_at_workers(&mut self, runtime: &RuntimeInner, now_ns: u64) {
        if now_ns >= self.quota_due_ns && self.may_meet_quota(runtime) {
            self.quota_due_ns = now_ns + QUOTA_NS;
            self.quota_due_cpu_ns = clock::process_cpu_ns() + QUOTA_CPU_NS;
            self.cpus.quota = cpu::quota();
        }
        let times = match now_ns >= self.delays_due_ns {
            true => {
                self.delays_due_ns = now_ns + DELAYS_NS;
                self.times_since_last(runtime)
            }
            false => SchedTimes::default(),
        };
        let workers = runtime.workers();
        let is_busy = |worker: &&Worker| worker.running_addr() != 0 || worker.has_mail();
        // A guest that has more to run than its host has time for is as good as a fiber without a
        // worker.
        let has_excess =
            |worker: &Worker| !worker.is_drained() || worker.backlog.load(Ordering::Relaxed);
        let cpus = self.cpus.count();
        let before = self.active.count();
        let count = self.active.observe(&WorkersLook {
            now_ns,
            cpus,
            concentrates: concentrates(runtime),
            busy: workers.iter().filter(is_busy).count() as u32,
            excess: !runtime.injector.is_empty() || workers.iter().any(has_excess),
            ran_ns: times.ran_ns,
            delayed_ns: times.delayed_ns,
        });
        runtime.governor.set_cpus(cpus);
        if count != before {
            runtime.set_active(InCall::off_fibers(), count as usize);
        }
    }

    /// Returns true if the process has used so much CPU time that a quota may bound it. The time of
    /// worker processes is not counted here.
    fn may_meet_quota(&self, runtime: &RuntimeInner) -> bool {
        runtime.options.processes || clock::process_cpu_ns() >= self.quota_due_cpu_ns
    }

    /// Lets the governor set how long agents spin.
    fn adapt(&mut self, runtime: &RuntimeInner, now_ns: u64) {
        if now_ns >= self.adapt_due_ns {
            self.adapt_due_ns = now_ns + ADAPT_NS;
            self.idle.look(runtime, now_ns);
            let (seen, elapsed_ns) = &self.idle.last;
            runtime.governor.adapt(seen, *elapsed_ns, self.active.lacks_cpus(now_ns));
        }
    }

    /// Returns the sums of the workers' times since the last look.
    fn times_since_last(&mut self, runtime: &RuntimeInner) -> SchedTimes {
        let workers = runtime.workers();
        self.delays.resize_with(workers.len(), Delay::default);
        let mut sum = SchedTimes::default();
        for (worker, delay) in workers.iter().zip(&mut self.delays) {
            // The thread of a guest sleeps, and its host is looked at itself.
            if worker.hosting.is_taken() {
                continue;
            }
            let since = delay.since_last(worker.thread.load(Ordering::Relaxed));
            sum.ran_ns += since.ran_ns;
            sum.delayed_ns += since.delayed_ns;
        }
        sum
    }
}

impl IdleWindow {
    /// Ends the window if it has enough idle times, or has lasted for long.
    fn look(&mut self, runtime: &RuntimeInner, now_ns: u64) {
        let counts = IdleCounts::sum(runtime.workers().iter().map(|worker| &worker.idle_times));
        let (seen, elapsed_ns) = (counts.since(&self.before), now_ns - self.since_ns);
        if seen.are_enough() || elapsed_ns >= IDLE_NS {
            *self = IdleWindow { since_ns: now_ns, before: counts, last: (seen, elapsed_ns) };
        }
    }
}

fn concentrates(runtime: &RuntimeInner) -> bool {
    runtime.governor.preset() == Preset::Power
}

impl Delay {
    /// Returns the times of `thread` since the last call; zeros if the kernel does not tell.
    fn since_last(&mut self, thread: u32) -> SchedTimes {
        if self.stat.as_ref().is_none_or(|(known, _)| *known != thread) {
            let stat = SchedStat::open(thread).ok();
            self.last = stat.as_ref().and_then(SchedStat::read).unwrap_or_default();
            self.stat = stat.map(|stat| (thread, stat));
            return SchedTimes::default();
        }
        let read = self.stat.as_ref().and_then(|(_, stat)| stat.read());
        let now = read.unwrap_or(self.last);
        let last = std::mem::replace(&mut self.last, now);
        SchedTimes {
            ran_ns: now.ran_ns.saturating_sub(last.ran_ns),
            delayed_ns: now.delayed_ns.saturating_sub(last.delayed_ns),
        }
    }
}
