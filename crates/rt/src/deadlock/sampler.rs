//! The search for deadlocks: whether an idle runtime can ever go on.
//!
//! It cannot if
//! 1. its workers run no fiber and nothing of its own will make one runnable: none is on its way or
//!    not yet started, no timer is armed, nothing is polled;
//! 2. each of its fibers waits for another fiber or a thread of this process;
//! 3. all other threads of the process are blocked until another wakes them, and no signal has a
//!    handler that might do so.
//!
//! Threads are looked at one after the other. A thread that has used no CPU time from one look to
//! the next was blocked in between. If that holds for all threads, there was a moment at which all
//! were blocked, and then for good. For fibers in a cycle only 1 is required: they can receive the
//! things that they wait for only from each other.

use std::io::{self, Write};
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use daiko_sys::{clock, signal, thread};

use super::report::Deadlock;
use super::search::Search;
use crate::atomic::Ordering;
use crate::runtime::{RuntimeInner, phase};
use crate::worker::Worker;

/// Time between the first two looks at an idle runtime; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Maximum pause while other threads might still wake a fiber.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The threads of monitors, which wake no waiter for a fiber or thread.
static MONITORS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn monitors() -> MutexGuard<'static, Vec<u32>> {
    MONITORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts the calling thread, which serves a client of the runtime for as long as the process
/// lives, as a monitor.
pub fn count_as_monitor() {
    monitors().push(thread::id());
}

/// Keeps the list of monitors as it is, for a fork: the child would inherit it locked.
pub fn keep_monitors() -> impl Drop {
    monitors()
}

/// Runs `hook`, which is user code, on a monitor, which then counts as an ordinary thread.
pub(crate) fn as_a_peer(hook: impl FnOnce()) {
    let me = thread::id();
    monitors().retain(|&monitor| monitor != me);
    // A hook that panics must not end the monitor; the panic hook has reported it.
    let _ = panic::catch_unwind(AssertUnwindSafe(hook));
    monitors().push(me);
}

/// The monitor's memory while its runtime is idle.
pub struct StuckSampler {
    /// Number of switches of all workers up to the last look.
    switches: Option<u64>,
    /// True if a deadlock has been reported since then.
    reported: bool,
    /// True if cycles have been searched for since then: there is none if nothing was reported.
    searched: bool,
    others: Option<Others>,
    pause: Duration,
    /// The time of the next look, in nanoseconds on the monotonic clock.
    due_ns: u64,
}

impl StuckSampler {
    /// Registers the calling thread, a monitor.
    #[allow(clippy::new_without_default, reason = "it registers the calling thread")]
    pub fn new() -> Self {
        count_as_monitor();
        let pause = FIRST_PAUSE;
        StuckSampler {
            switches: None,
            reported: false,
            searched: false,
            others: None,
            pause,
            due_ns: 0,
        }
    }

    /// Looks, if a look is due.
    pub(crate) fn look_in_time(&mut self, runtime: &RuntimeInner) {
        let now = clock::monotonic_ns();
        if now >= self.due_ns {
            let pause = self.look(runtime).unwrap_or(Duration::ZERO);
            self.due_ns = now + pause.as_nanos() as u64;
        }
    }

    /// Looks once; returns the time after which to look again. `None`: not before a worker has run.
    pub fn look(&mut self, runtime: &RuntimeInner) -> Option<Duration> {
        let own = runtime.options.own_search;
        own.inspect(|own| (own.looks)());
        let switches = runtime.switches_if_idle()?;
        if self.switches.replace(switches) != Some(switches) {
            (self.reported, self.searched, self.others) = (false, false, None);
            self.pause = FIRST_PAUSE;
            return Some(self.pause);
        }
        if self.reported {
            return None;
        }
        let others = Others::of(runtime);
        let sleep = others.awake == 0 && self.others.as_ref() == Some(&others);
        if let Some(own) = own {
            if sleep
                && let Some(report) = (own.search)(&others.ids())
                && runtime.switches_if_idle() == Some(switches)
            {
                self.reported = true;
                tell(&report);
                return None;
            }
            // A signal handler may run, in a thread that is no worker.
            return Some(self.look_later(others));
        }
        let asleep = sleep && !signal::any_handler();
        if (!mem::replace(&mut self.searched, true) || asleep)
            && let Some(deadlock) = runtime.deadlock(asleep, others.awake)
            && runtime.switches_if_idle() == Some(switches)
        {
            self.reported = true;
            runtime.tell(&deadlock);
            return None;
        }
        let pause = self.look_later(others);
        (!asleep).then_some(pause)
    }

    /// Keeps the finding of a look for the next, and returns the pause between the two.
    fn look_later(&mut self, others: Others) -> Duration {
        self.others = Some(others);
        self.pause = LONGEST_PAUSE.min(2 * self.pause);
        self.pause
    }
}

impl Drop for StuckSampler {
    fn drop(&mut self) {
        let me = thread::id();
        monitors().retain(|&monitor| monitor != me);
    }
}

/// The threads of the process that are neither workers of one runtime nor monitors, at one look.
#[derive(PartialEq)]
pub struct Others {
    /// Their ids, and the CPU time that they have used.
    pub used: Vec<(u32, Option<u64>)>,
    /// Number of threads that may go on without the help of another.
    pub awake: usize,
}

impl Others {
    pub fn of(runtime: &RuntimeInner) -> Others {
        // If the kernel does not tell: at least one thread has built the runtime.
        let Ok(mut ids) = thread::all() else { return Others { used: Vec::new(), awake: 1 } };
        let monitors = monitors().clone();
        let workers = runtime.all_workers().iter().map(|worker| &worker.thread);
        let workers: Vec<u32> = workers.map(|thread| thread.load(Ordering::Relaxed)).collect();
        ids.retain(|id| !workers.contains(id) && !monitors.contains(id));
        let awake = ids.iter().filter(|&&id| !thread::waits_for_another(id)).count();
        let awake = awake.saturating_sub(runtime.blocking.idle_threads());
        Others { used: ids.into_iter().map(|id| (id, clock::cpu_ns_of(id))).collect(), awake }
    }

    fn ids(&self) -> Vec<u32> {
        self.used.iter().map(|&(id, _)| id).collect()
    }
}

impl RuntimeInner {
    /// Returns true if deadlocks are to be reported.
    fn looks_for_deadlocks(&self) -> bool {
        let asked = self.options.on_deadlock.is_some() || self.options.own_search.is_some();
        !self.options.processes && (asked || cfg!(debug_assertions))
    }

    /// Returns the number of switches to fibers up to now, if fibers live, or a client looks for
    /// more than fibers, and no fiber will go on unless another thread wakes it.
    pub fn switches_if_idle(&self) -> Option<u64> {
        let all = self.all_workers();
        let sum = |count: fn(&Worker) -> u64| all.iter().map(count).sum::<u64>();
        let switches = sum(|worker| worker.counters.switches.get());
        let switches_if_idle = self.looks_for_deadlocks()
            && self.phase() == phase::RUNNING
            && !self.is_awaited()
            && self.injector.is_empty()
            && all.iter().all(Worker::is_idle)
            && (self.options.own_search.is_some()
                || sum(|worker| worker.counters.ends.get())
                    != sum(|worker| worker.counters.starts.get()));
        switches_if_idle.then_some(switches)
    }

    /// Returns the fibers that wait in vain: all, if `asleep`, which means that all other threads
    /// are; else those in cycles.
    pub fn deadlock(&self, asleep: bool, others: usize) -> Option<Deadlock> {
        let search = Search::of(self)?;
        let cycles = search.cycles();
        let lost = !cycles.is_empty() || asleep && search.all_wait_for_others();
        if lost { search.report(&cycles, others) } else { None }
    }

    fn tell(&self, deadlock: &Deadlock) {
        match &self.options.on_deadlock {
            Some(hook) => as_a_peer(|| hook(deadlock)),
            None => tell(&deadlock.to_string()),
        }
    }
}

/// Writes a report to standard error.
fn tell(report: &str) {
    // An error means that standard error is closed, and no report is wanted.
    let _ = io::stderr().write_all(format!("{report}\n").as_bytes());
}
