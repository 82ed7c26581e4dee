//! The monitor thread: one kernel thread that checks every few milliseconds that all workers make
//! progress.
//!
//! It sleeps while all workers do, except for a few looks whether they can ever go on (`deadlock`).
//! Otherwise, at each look:
//! 1. It raises the tick flag of a worker that has not picked a fiber since the last look, so that
//!    the worker's next pick polls the agent's sources.
//! 2. It reports a worker that has been in one fiber for [`STUCK_PERIODS`]. Placement then sends no
//!    more fibers there, and a spare worker takes the stuck worker's unstarted and migratable
//!    fibers, including those with deadlines that pass. Fibers that were placed there by name stay.
//!    A stuck spare worker has another behind it, if the runtime has so many; in any case its
//!    migratable fibers are taken. If it sleeps in the kernel, that begins earlier.
//! 3. It sets how many workers are active, and how long agents spin (`active`), and gives a worker
//!    that stands by back to its thread if its host is busy.
//! 4. It unparks a worker that polls on behalf of a busy one, if fibers wait for polled watches
//!    that no agent has polled.
//! 5. It searches for deadlocks among workers that only poll.
//! 6. It checks now and then that the kernel steers packets after their readers, if that matters.

use std::io::{self, Write};
use std::panic::Location;
use std::ptr;
use std::thread::JoinHandle;
use std::time::Duration;

use daiko_core::announce::Announcement;
use daiko_core::fiber::Owner;
use daiko_sys::{clock, thread};

use super::active::ActiveLooks;
use super::report::Stuck;
use super::state::{LONGEST_PERIOD, Monitor};
use crate::atomic::Ordering;
use crate::call::InCall;
use crate::deadlock::{self, StuckSampler};
use crate::fiber::ControlBlock;
use crate::runtime::{self, BuildError, RuntimeInner, SharedPtr};
use crate::worker::Worker;

/// Time between two looks while one is due.
const PERIOD: Duration = Duration::from_millis(1);
/// Number of looks without a switch after which a worker counts as stuck.
const STUCK_PERIODS: u32 = 10;
/// Number of looks after which a spare worker that sleeps in the kernel is relieved: the fibers
/// before did so, too, and more of them are likely to follow.
const SPARE_ASLEEP_PERIODS: u32 = 2;
/// Number of looks after which a worker is not left to a host that does not run it.
const UNHOSTED_PERIODS: u32 = 2;
/// Number of looks after which a stuck worker is reported unasked, with debug assertions: at least
/// a second. Looks are counted, not time, as a debugger may stop the process.
const UNASKED_PERIODS: u32 = 1000;
/// Maximum number of runnable fibers that a report names: each costs a barrier among all workers.
const MOST_NAMED: usize = 256;
/// Number of messages that a look at a stuck worker may go through, on average.
const MAIL_PER_PERIOD: u32 = 256;

impl Monitor {
    /// Starts the monitor's thread, and waits until it runs and so has everything that a start
    /// needs.
    pub(crate) fn start(
        shared: SharedPtr,
        mut active: ActiveLooks,
    ) -> Result<JoinHandle<()>, BuildError> {
        let (report, started) = std::sync::mpsc::sync_channel(1);
        let thread = runtime::start_thread("daiko-monitor", move || {
            let shared = shared;
            // SAFETY: the shared part lives until this thread has ended.
            let shared = unsafe { shared.0.as_ref() };
            let _ = report.send(());
            let mut seen = Vec::new();
            let mut sampler = StuckSampler::new();
            let mut period = PERIOD;
            while shared
                .monitor
                .sleep(period, || active.rest(shared).or_else(|| sampler.look(shared)))
            {
                seen.resize(shared.all_workers().len(), ObservedWorker::default());
                for (worker, seen) in shared.all_workers().iter().zip(&mut seen) {
                    seen.look(shared, worker);
                }
                active.look(shared, clock::monotonic_ns());
                shared.stand_in(&seen);
                sampler.look_in_time(shared);
                shared.steering.look();
                shared.pairing.look(shared);
                period = match shared.is_look_due(&seen) {
                    true => PERIOD,
                    false => LONGEST_PERIOD.min(2 * period),
                };
            }
        })?;
        let _ = started.recv();
        Ok(thread)
    }
}

/// The values that change while a worker makes progress.
#[derive(Clone, Copy, Default, PartialEq)]
struct WorkerSnapshot {
    switches: u64,
    polls: u64,
    fiber: usize,
}

impl WorkerSnapshot {
    fn of(worker: &Worker) -> Self {
        let (switches, polls) = (worker.counters.switches.get(), worker.counters.polls.get());
        WorkerSnapshot { switches, polls, fiber: worker.running_here() }
    }
}

/// The monitor's memory of a worker.
#[derive(Clone, Default)]
struct ObservedWorker {
    snapshot: WorkerSnapshot,
    /// Number of looks since the last change.
    periods: u32,
    /// CPU time of the worker's thread at the first of them.
    cpu_ns: u64,
    /// True if the spare worker behind it takes its fibers.
    is_relieved: bool,
    /// True if it counts as stuck.
    is_stuck: bool,
    /// True if it has been reported unasked.
    is_reported: bool,
    /// Number of looks to pass before its messages are gone through again.
    leafed: u32,
    /// Number of looks since a host that has it has last run it.
    unhosted: u32,
    /// True if it has run a fiber since the look before.
    ran: bool,
}

impl ObservedWorker {
    fn look(&mut self, shared: &RuntimeInner, worker: &Worker) {
        let snapshot = WorkerSnapshot::of(worker);
        self.recall_from_busy_host(worker, snapshot);
        if snapshot.fiber == 0 || snapshot != self.snapshot {
            if self.is_relieved {
                shared.release_spare(worker);
            }
            let ran = snapshot.switches != self.snapshot.switches;
            let unhosted = self.unhosted;
            *self = ObservedWorker { snapshot, unhosted, ran, ..ObservedWorker::default() };
            return;
        }
        self.periods += 1;
        worker.attention.raise_tick();
        if self.periods == 1 {
            self.cpu_ns = cpu_ns(worker);
        }
        if self.is_relieved {
            worker.rescue_sleepers();
            worker.rescue_calls();
            self.leafed = match self.leafed.checked_sub(1) {
                Some(left) => left,
                None => worker.rescue_fibers() / MAIL_PER_PERIOD,
            };
        }
        if !self.is_reported && self.has_lasted(UNASKED_PERIODS, worker) {
            self.is_reported = true;
            shared.report_unasked(worker);
        }
        // The worker is looked at again: if the monitor was kept from its CPU in between, the
        // worker may have made progress in the time that it seemed stuck.
        let is_same = || WorkerSnapshot::of(worker) == snapshot;
        let is_stuck = !self.is_stuck && self.has_lasted(STUCK_PERIODS, worker) && is_same();
        if !self.is_relieved && (is_stuck || self.sleeps_as_spare(worker) && is_same()) {
            self.is_relieved = true;
            shared.engage_spare(worker);
        }
        if is_stuck {
            self.is_stuck = true;
            shared.worker_is_stuck(worker);
        }
    }

    /// Gives a worker that stands by back to its own thread if its host, which is busy, has not run
    /// it for some looks.
    fn recall_from_busy_host(&mut self, worker: &Worker, snapshot: WorkerSnapshot) {
        let waits = worker.hosting.is_taken() && snapshot.switches == self.snapshot.switches;
        self.unhosted = if waits { self.unhosted + 1 } else { 0 };
        if self.unhosted >= UNHOSTED_PERIODS {
            self.unhosted = 0;
            worker.recall();
        }
    }

    /// Returns true if the worker is a spare one that has slept in one fiber for long enough to be
    /// relieved.
    fn sleeps_as_spare(&self, worker: &Worker) -> bool {
        self.periods >= SPARE_ASLEEP_PERIODS
            && worker.is_spare()
            && !thread::is_runnable(worker.thread.load(Ordering::Relaxed))
    }

    /// Returns true if the worker has been in one fiber for this number of looks, and the fiber,
    /// not another process, has kept it there: it has had the CPU for half of that time, over as
    /// many looks as that took, or does not ask for one.
    fn has_lasted(&self, looks: u32, worker: &Worker) -> bool {
        self.periods >= looks && {
            let used = Duration::from_nanos(cpu_ns(worker).saturating_sub(self.cpu_ns));
            used >= PERIOD * looks / 2
                || !thread::is_runnable(worker.thread.load(Ordering::Relaxed))
        }
    }
}

fn cpu_ns(worker: &Worker) -> u64 {
    let id = worker.thread.load(Ordering::Relaxed);
    let used = match worker.runtime().options.processes {
        // The worker is the main thread of its process; the threads of blocking calls are counted
        // with it.
        true => clock::cpu_ns_of_process(id),
        false => clock::cpu_ns_of(id),
    };
    used.unwrap_or(0)
}

impl RuntimeInner {
    /// Counts and reports a stuck worker.
    fn worker_is_stuck(&self, worker: &Worker) {
        worker.counters.stuck.add(1);
        if let Some(hook) = &self.options.on_stuck
            && let Some(report) = self.stuck_report(worker)
        {
            deadlock::as_a_peer(|| hook(&report));
        }
    }

    /// Writes the report of a stuck worker to standard error, in builds with debug assertions and
    /// without a hook.
    fn report_unasked(&self, worker: &Worker) {
        if cfg!(debug_assertions)
            && self.options.on_stuck.is_none()
            && let Some(report) = self.stuck_report(worker)
        {
            // An error means that standard error is closed, and no report is wanted.
            let _ = writeln!(io::stderr(), "{report}");
        }
    }

    /// Describes a stuck worker. Returns `None` if the worker has left the fiber meanwhile.
    fn stuck_report(&self, worker: &Worker) -> Option<Stuck> {
        let running = worker.running_block()?;
        let (name, spawned_at) = self.read_spawn_record(worker, running)?;
        let thread_id = worker.thread.load(Ordering::Relaxed);
        let system_call = thread::blocked_syscall(thread_id);
        let mut report = Stuck {
            worker: worker.index as usize,
            fiber: name,
            spawned_at,
            state: thread::state(thread_id),
            system_call,
            in_futex: system_call == Some(thread::FUTEX),
            runnable: Vec::new(),
            runnable_count: 0,
            suspended: Vec::new(),
        };
        self.add_neighbours(worker, running, &mut report);
        worker.running_block().is_some_and(|block| ptr::eq(block, running)).then_some(report)
    }

    /// Adds the other fibers that the stuck worker has started.
    fn add_neighbours(&self, worker: &Worker, running: &ControlBlock, report: &mut Stuck) {
        self.pool.for_each(InCall::off_fibers(), |block| {
            if ptr::eq(block, running) {
                return;
            }
            let is_suspended = block.state.is_suspended();
            if is_suspended && (!report.in_futex || report.suspended.len() == 16) {
                return;
            }
            if report.runnable_count >= MOST_NAMED {
                report.runnable_count += usize::from(block.owner.is(worker) && !is_suspended);
                return;
            }
            let Some((name, spawned_at)) = self.read_spawn_record(worker, block) else { return };
            match is_suspended {
                true => report.suspended.push(name.unwrap_or_else(|| spawned_at.to_string())),
                false => report.add_runnable(name, spawned_at),
            }
        });
    }

    /// Returns name and source location of a fiber that `worker` has started, if the fiber has not
    /// ended.
    pub(crate) fn read_spawn_record(
        &self,
        worker: &Worker,
        fiber: &ControlBlock,
    ) -> Option<(Option<String>, &'static Location<'static>)> {
        if !fiber.owner.is(worker) {
            return None; // Most belong to another worker: no barrier for them.
        }
        let _guard = self.hazard.at(fiber, &self.barriers);
        // In this order: a reader that sees the block in use sees no owner of an earlier use, and a
        // reader that sees the owner sees all writes before the start.
        let mine = fiber.is_used()
            && matches!(fiber.owner.load(), Owner::Worker(owner) if ptr::eq(owner, worker));
        mine.then(|| (fiber.name().map(str::to_owned), fiber.spawned_at.get()))
    }

    /// Returns the spare worker behind `worker`, which may be one itself.
    fn spare_of(&self, worker: &Worker) -> Option<&Worker> {
        self.all_workers().get(worker.index as usize + self.worker_count())
    }

    /// Lets a spare worker take over the fibers that may leave `worker`.
    fn engage_spare(&self, worker: &Worker) {
        worker.stuck.store(true, Ordering::Relaxed);
        if self.spare_of(worker).is_none() {
            self.make_spares();
        }
        let Some(spare) = self.spare_of(worker) else { return };
        spare.active.store(true, Ordering::Relaxed);
        self.spares.fetch_add(1, Ordering::Relaxed);
        if !spare.started.swap(true, Ordering::Relaxed) {
            // Without a thread for the spare worker, the stuck worker's fibers wait, as they did so
            // far.
            let _ = self.start_thread(spare.index as usize, self.affinity.of_spare());
        } else {
            spare.unpark_for(&Announcement::of_changes());
        }
    }

    fn release_spare(&self, worker: &Worker) {
        worker.stuck.store(false, Ordering::Relaxed);
        if let Some(spare) = self.spare_of(worker) {
            spare.active.store(false, Ordering::Relaxed);
            self.spares.fetch_sub(1, Ordering::Relaxed);
            // For work that it was woken for, and takes no more.
            self.wake_one(InCall::off_fibers());
        }
    }

    /// Returns true if a worker makes no progress, or if a worker runs fibers now and then whose
    /// agent has a source to poll.
    fn is_look_due(&self, seen: &[ObservedWorker]) -> bool {
        let of = |(worker, seen): (&Worker, &ObservedWorker)| {
            seen.periods > 0 || seen.unhosted > 0 || seen.ran && self.is_sampled(worker)
        };
        self.all_workers().iter().zip(seen).any(of)
    }

    /// Returns true if this worker's agent has a source to poll.
    fn is_sampled(&self, worker: &Worker) -> bool {
        worker.is_awaited() || self.is_awaited()
    }

    /// Makes other agents poll the sources of a busy worker; wakes one if all sleep.
    fn stand_in(&self, seen: &[ObservedWorker]) {
        let workers = self.all_workers().iter().zip(seen);
        let neglected = |(worker, seen): (&Worker, &ObservedWorker)| {
            seen.periods > 0 && self.is_sampled(worker)
        };
        let needed = workers.into_iter().any(neglected);
        self.stand_in.store(needed, Ordering::Relaxed);
        if needed {
            // Repeated in each period: the worker that was woken before may be busy by now.
            self.wake_one(InCall::off_fibers());
        }
    }
}
