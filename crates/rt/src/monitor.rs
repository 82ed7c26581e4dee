//! The monitor: one kernel thread that looks every few milliseconds whether all workers get along.
//!
//! It sleeps while all workers do, but for a few looks whether they will ever go on (`deadlock`).
//! Otherwise, at each look, it
//! 1. raises the tick flag of a worker that has not picked a fiber since the last look, so that
//!    its next pick polls the agent's sources;
//! 2. reports a worker that has been in one fiber for [`STUCK_PERIODS`], and has a spare worker
//!    take its unstarted fibers and movers meanwhile, those whose time comes included; a spare that is
//!    stuck itself has no other behind it, but its movers are taken, too;
//! 3. unparks a stand-in where silent watches wait and nobody has sampled them;
//! 4. looks whether workers that only poll will ever have a fiber to run;
//! 5. looks now and then whether the kernel steers packets after their readers, where that matters.

use std::io;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use daiko_core::fiber::Owner;
use daiko_sys::{Scope, clock, futex, thread};

use crate::deadlock::{self, Lookout};
use crate::fiber::ControlBlock;
use crate::runtime::{Shared, SharedPtr};
use crate::worker::Worker;

/// Time between two looks where one is due.
const PERIOD: Duration = Duration::from_millis(1);
/// Time between two looks where for long there was nothing to see: each costs the CPU two switches, and a server of which
/// it is the only one 4% of its requests where they come every period.
const LONGEST_PERIOD: Duration = Duration::from_millis(8);
/// Looks without a switch after which a worker counts as stuck.
const STUCK_PERIODS: u32 = 10;
/// Mail that a look at a stuck worker may leaf through, on average.
const MAIL_PER_PERIOD: u32 = 256;

/// A worker that has been in one fiber for long, as reported to
/// [`RuntimeBuilder::on_stuck`](crate::RuntimeBuilder::on_stuck).
#[derive(Debug)]
#[non_exhaustive]
pub struct Stuck {
    /// The worker, counted from 0.
    pub worker: usize,
    /// The name of the fiber that it is in.
    pub fiber: Option<String>,
    /// Where that fiber was spawned.
    pub spawned_at: &'static Location<'static>,
    /// Whether its thread is blocked in a futex: if the names below hold the lock, for ever.
    pub in_futex: bool,
    /// Names (or else the places of the spawn) of the worker's suspended fibers, at most 16, if
    /// it is blocked in a futex: one of them may hold the lock that it waits for.
    pub suspended: Vec<String>,
}

/// What the user wants done with such a report.
pub(crate) type StuckHook = Box<dyn Fn(&Stuck) + Send + Sync>;

/// The monitor's part of the runtime.
pub(crate) struct Monitor {
    /// Workers whose threads run.
    awake: AtomicU32,
    /// What the monitor sleeps on: `WATCHING`, `ASLEEP` or `ENDING`.
    word: AtomicU32,
    /// Whose workers wake it.
    scope: Scope,
}

const WATCHING: u32 = 0;
const ASLEEP: u32 = 1;
const ENDING: u32 = 2;

impl Monitor {
    pub(crate) fn new(scope: Scope) -> Self {
        Monitor { awake: AtomicU32::new(0), word: AtomicU32::new(WATCHING), scope }
    }

    /// A worker is about to sleep until somebody unparks it.
    pub(crate) fn worker_parks(&self) {
        // Release: pairs with the Acquire in `sleep_while_idle`, though nothing depends on it.
        self.awake.fetch_sub(1, Ordering::Release);
    }

    /// A worker's thread runs, again or for the first time.
    pub(crate) fn worker_runs(&self) {
        // SeqCst, as the loads and stores in `sleep_while_idle`: either the monitor sees this
        // worker awake, or this sees the monitor asleep.
        let before = self.awake.fetch_add(1, Ordering::SeqCst);
        if before == 0 && self.word.load(Ordering::SeqCst) == ASLEEP {
            self.wake(WATCHING);
        }
    }

    fn wake(&self, word: u32) {
        // A monitor that is told to end is not told to watch.
        let change = self.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |seen| {
            (seen != ENDING).then_some(word)
        });
        if change.is_ok() {
            futex::wake(&self.word, 1, self.scope);
        }
    }

    /// Has the monitor's thread end.
    pub(crate) fn end(&self) {
        self.wake(ENDING);
    }

    /// Sleeps for a `period`, or while all workers are parked; false if the monitor shall end.
    ///
    /// They may be for a moment only, so it sleeps longer only if they were `at_rest` all through the last period:
    /// waking the monitor costs the worker that does so more than many parks.
    ///
    /// `idle` is called while they are, and says after what time to do so again, if at all.
    fn sleep(
        &self,
        period: Duration,
        at_rest: bool,
        mut idle: impl FnMut() -> Option<Duration>,
    ) -> bool {
        let _ = futex::wait(&self.word, WATCHING, Some(period), self.scope);
        if at_rest && self.awake.load(Ordering::SeqCst) == 0 && self.go_to_sleep() {
            while self.word.load(Ordering::SeqCst) == ASLEEP {
                if self.awake.load(Ordering::SeqCst) == 0 {
                    let _ = futex::wait(&self.word, ASLEEP, idle(), self.scope);
                } else {
                    self.wake(WATCHING);
                }
            }
        }
        self.word.load(Ordering::SeqCst) != ENDING
    }

    fn go_to_sleep(&self) -> bool {
        let asleep = |seen| (seen != ENDING).then_some(ASLEEP);
        self.word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, asleep).is_ok()
    }

    /// Starts the monitor's thread, and waits until it runs: what a start needs is had then.
    pub(crate) fn start(shared: SharedPtr) -> io::Result<JoinHandle<()>> {
        let (report, started) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("daiko-monitor".into()).spawn(move || {
            let shared = shared;
            // SAFETY: the shared part lives until this thread has ended.
            let shared = unsafe { shared.0.as_ref() };
            let _ = report.send(());
            let mut seen = vec![Seen::default(); shared.all_workers().len()];
            let mut lookout = Lookout::new();
            let (mut period, mut at_rest) = (PERIOD, false);
            while shared.monitor.sleep(period, at_rest, || lookout.look(shared)) {
                at_rest = true;
                for (worker, seen) in shared.all_workers().iter().zip(&mut seen) {
                    at_rest &= seen.sight == Sight::of(worker);
                    seen.look(shared, worker);
                }
                shared.stand_in(&seen);
                lookout.look_in_time(shared);
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

/// What changes while a worker gets along.
#[derive(Clone, Copy, Default, PartialEq)]
struct Sight {
    switches: u64,
    polls: u64,
    fiber: usize,
}

impl Sight {
    fn of(worker: &Worker) -> Self {
        let (switches, polls) = (worker.counters.switches.get(), worker.counters.polls.get());
        Sight { switches, polls, fiber: worker.running_addr() }
    }
}

/// What the monitor remembers of a worker.
#[derive(Clone, Default)]
struct Seen {
    sight: Sight,
    /// Looks since the last change.
    periods: u32,
    /// CPU time of the worker's thread at the first of them.
    cpu_ns: u64,
    /// Looks to pass before its mail is leafed through again.
    leafed: u32,
}

impl Seen {
    fn look(&mut self, shared: &Shared, worker: &Worker) {
        let sight = Sight::of(worker);
        if sight.fiber == 0 || sight != self.sight {
            if self.periods >= STUCK_PERIODS {
                shared.release_spare(worker);
            }
            *self = Seen { sight, ..Seen::default() };
            return;
        }
        self.periods += 1;
        worker.tick.store(true, Ordering::Relaxed);
        if self.periods == 1 {
            self.cpu_ns = cpu_ns(worker);
        }
        if self.periods > STUCK_PERIODS {
            worker.rescue_sleepers();
            worker.rescue_calls();
            self.leafed = match self.leafed.checked_sub(1) {
                Some(left) => left,
                None => worker.rescue_movers() / MAIL_PER_PERIOD,
            };
        }
        if self.periods == STUCK_PERIODS {
            // Looked at again: if the monitor was kept from its CPU in between, the worker may
            // have got along by what looks like the time that it was stuck.
            if self.had_no_cpu(worker) || Sight::of(worker) != sight {
                self.periods = 0;
            } else {
                shared.worker_is_stuck(worker);
            }
        }
    }

    /// Whether it was another process, not the fiber, that kept the worker.
    fn had_no_cpu(&self, worker: &Worker) -> bool {
        let used = Duration::from_nanos(cpu_ns(worker).saturating_sub(self.cpu_ns));
        used < PERIOD * STUCK_PERIODS / 2
            && thread::is_runnable(worker.thread.load(Ordering::Relaxed))
    }
}

fn cpu_ns(worker: &Worker) -> u64 {
    let id = worker.thread.load(Ordering::Relaxed);
    let used = match worker.runtime().options.processes {
        // The worker is the main thread there; those of blocking calls are counted with it.
        true => clock::cpu_ns_of_process(id),
        false => clock::cpu_ns_of(id),
    };
    used.unwrap_or(0)
}

impl Shared {
    /// Counts, reports, and has a spare take over what may leave the worker.
    fn worker_is_stuck(&self, worker: &Worker) {
        worker.counters.stuck.add(1);
        self.engage_spare(worker);
        if let Some(hook) = &self.options.on_stuck
            && let Some(report) = self.stuck_report(worker)
        {
            deadlock::as_somebody(|| hook(&report));
        }
    }

    /// `None` if the worker has left the fiber meanwhile.
    fn stuck_report(&self, worker: &Worker) -> Option<Stuck> {
        let running = worker.running_block()?;
        let (name, spawned_at) = self.glance_at(worker, running)?;
        let in_futex =
            thread::blocked_syscall(worker.thread.load(Ordering::Relaxed)) == Some(thread::FUTEX);
        let suspended = if in_futex { self.suspended_on(worker) } else { Vec::new() };
        let report =
            Stuck { worker: worker.index as usize, fiber: name, spawned_at, in_futex, suspended };
        worker.running_block().is_some_and(|block| ptr::eq(block, running)).then_some(report)
    }

    fn suspended_on(&self, worker: &Worker) -> Vec<String> {
        let mut names = Vec::new();
        self.pool.for_each(|block| {
            if names.len() < 16
                && block.state.is_suspended()
                && let Some((name, spawned_at)) = self.glance_at(worker, block)
            {
                names.push(name.unwrap_or_else(|| spawned_at.to_string()));
            }
        });
        names
    }

    /// Name and place of the spawn of a fiber that `worker` has started, if it has not ended.
    pub(crate) fn glance_at(
        &self,
        worker: &Worker,
        fiber: &ControlBlock,
    ) -> Option<(Option<String>, &'static Location<'static>)> {
        if !fiber.owner.is(worker) {
            return None; // Most are another's: no barrier for them.
        }
        let _glancing = self.glance.at(fiber, &self.barriers);
        // In this order: who sees the block in use sees no owner of an earlier use, and who sees
        // the owner sees all that was written before the start.
        let mine = fiber.is_used()
            && matches!(fiber.owner.load(), Owner::Worker(owner) if ptr::eq(owner, worker));
        mine.then(|| (fiber.name().map(str::to_owned), fiber.spawned_at.get()))
    }

    /// The spare that stands behind `worker`.
    fn spare_of(&self, worker: &Worker) -> Option<&Worker> {
        self.all_workers().get(worker.index as usize + self.worker_count())
    }

    fn engage_spare(&self, worker: &Worker) {
        let Some(spare) = self.spare_of(worker) else { return };
        worker.stuck.store(true, Ordering::Relaxed);
        spare.active.store(true, Ordering::Relaxed);
        self.spares.fetch_add(1, Ordering::Relaxed);
        if !spare.started.swap(true, Ordering::Relaxed) {
            // Without a thread for it the stuck worker's fibers wait, as they did so far.
            let _ = self.start_thread(spare.index as usize, &self.cpus);
        } else {
            spare.unpark(None);
        }
    }

    fn release_spare(&self, worker: &Worker) {
        worker.stuck.store(false, Ordering::Relaxed);
        if let Some(spare) = self.spare_of(worker) {
            spare.active.store(false, Ordering::Relaxed);
            self.spares.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a worker does not get along, or there is what nobody would sample if it did not.
    fn is_look_due(&self, seen: &[Seen]) -> bool {
        let of = |(worker, seen): (&Worker, &Seen)| seen.periods > 0 || self.is_sampled(worker);
        self.all_workers().iter().zip(seen).any(of)
    }

    /// Whether this worker's agent has something to sample.
    fn is_sampled(&self, worker: &Worker) -> bool {
        worker.is_awaited() || self.is_awaited()
    }

    /// Has others sample what a busy worker's agent does not; wakes one if all sleep.
    fn stand_in(&self, seen: &[Seen]) {
        let workers = self.all_workers().iter().zip(seen);
        let neglected =
            |(worker, seen): (&Worker, &Seen)| seen.periods > 0 && self.is_sampled(worker);
        let needed = workers.into_iter().any(neglected);
        self.stand_in.store(needed, Ordering::Relaxed);
        if needed {
            // Again in each period: the one that was woken before may be busy by now.
            self.wake_one();
        }
    }
}
