//! Whether a runtime that rests can ever go on.
//!
//! It cannot if
//! 1. its workers run no fiber and nothing of its own will make one runnable: none is on its way or
//!    not yet started, no timer is armed, nothing is sampled;
//! 2. each of its fibers waits for another fiber or a thread of this process;
//! 3. all other threads of the process are blocked until another wakes them, and no signal has a
//!    handler that might do so.
//!
//! Threads are looked at one after the other. One that has used no CPU time from one look to the next
//! was blocked in between; if that is so of all, there was a moment at which all were, and then for
//! good. Of fibers in a cycle only 1 is asked: nobody but each other can give them what they wait for.

use std::io::{self, Write};
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use daiko_sys::{clock, signal, thread};

use super::report::Deadlock;
use super::search::Search;
use crate::runtime::{Shared, phase};
use crate::worker::Worker;

/// Time between the first two looks at a runtime that rests; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// At most, while other threads might still wake somebody.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The threads of monitors, which wake nobody who waits for a fiber or thread.
static MONITORS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn monitors() -> MutexGuard<'static, Vec<u32>> {
    MONITORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `hook`, a user's code, on a monitor, which then is a thread like any other.
pub(crate) fn as_somebody(hook: impl FnOnce()) {
    let me = thread::id();
    monitors().retain(|&monitor| monitor != me);
    // A hook that panics must not take the monitor along; the panic hook has told.
    let _ = panic::catch_unwind(AssertUnwindSafe(hook));
    monitors().push(me);
}

/// What a monitor remembers while its runtime rests.
pub struct Lookout {
    /// Switches of all workers up to the last look.
    switches: Option<u64>,
    /// Whether what was found has been told since then.
    told: bool,
    /// Whether cycles have been searched for since then: there is none if nothing was told.
    searched: bool,
    others: Option<Others>,
    pause: Duration,
    /// When to look again, in nanoseconds on the monotonic clock.
    due_ns: u64,
}

impl Lookout {
    /// On the monitor's thread.
    pub fn new() -> Self {
        monitors().push(thread::id());
        let pause = FIRST_PAUSE;
        Lookout { switches: None, told: false, searched: false, others: None, pause, due_ns: 0 }
    }

    /// Looks, if it is time to.
    pub(crate) fn look_in_time(&mut self, runtime: &Shared) {
        let now = clock::monotonic_ns();
        if now >= self.due_ns {
            let pause = self.look(runtime).unwrap_or(Duration::ZERO);
            self.due_ns = now + pause.as_nanos() as u64;
        }
    }

    /// Looks once; returns after what time to look again. `None`: not before a worker has run.
    pub fn look(&mut self, runtime: &Shared) -> Option<Duration> {
        let switches = runtime.rests()?;
        if self.switches.replace(switches) != Some(switches) {
            (self.told, self.searched, self.others) = (false, false, None);
            self.pause = FIRST_PAUSE;
            return Some(self.pause);
        }
        if self.told {
            return None;
        }
        let others = Others::of(runtime);
        let asleep =
            others.awake == 0 && self.others.as_ref() == Some(&others) && !signal::any_handler();
        if (!mem::replace(&mut self.searched, true) || asleep)
            && let Some(deadlock) = runtime.deadlock(asleep, others.awake)
            && runtime.rests() == Some(switches)
        {
            self.told = true;
            runtime.tell(&deadlock);
            return None;
        }
        self.others = Some(others);
        self.pause = LONGEST_PAUSE.min(2 * self.pause);
        (!asleep).then_some(self.pause)
    }
}

impl Drop for Lookout {
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
    /// How many may go on without another's help.
    pub awake: usize,
}

impl Others {
    pub fn of(runtime: &Shared) -> Others {
        // Where the kernel does not tell: one at least has built the runtime.
        let Ok(mut ids) = thread::all() else { return Others { used: Vec::new(), awake: 1 } };
        let monitors = monitors().clone();
        let workers = runtime.all_workers().iter().map(|worker| &worker.thread);
        let workers: Vec<u32> = workers.map(|thread| thread.load(Ordering::Relaxed)).collect();
        ids.retain(|id| !workers.contains(id) && !monitors.contains(id));
        let awake = ids.iter().filter(|&&id| !thread::waits_for_another(id)).count();
        let awake = awake.saturating_sub(runtime.blocking.idle_threads());
        Others { used: ids.into_iter().map(|id| (id, clock::cpu_ns_of(id))).collect(), awake }
    }
}

impl Shared {
    /// Whether anybody wants to know of a deadlock.
    fn looks_for_deadlocks(&self) -> bool {
        !self.options.processes && (self.options.on_deadlock.is_some() || cfg!(debug_assertions))
    }

    /// If fibers live, and none will go on unless somebody else wakes it: how often fibers were
    /// switched to up to now.
    pub fn rests(&self) -> Option<u64> {
        let all = self.all_workers();
        let sum = |count: fn(&Worker) -> u64| all.iter().map(count).sum::<u64>();
        let switches = sum(|worker| worker.counters.switches.get());
        let rests = self.looks_for_deadlocks()
            && self.phase() == phase::RUNNING
            && !self.is_awaited()
            && self.injector.is_empty()
            && all.iter().all(Worker::rests)
            && sum(|worker| worker.counters.ends.get())
                != sum(|worker| worker.counters.starts.get());
        rests.then_some(switches)
    }

    /// What fibers wait for in vain: all, if `asleep`, that is all other threads are; else those in
    /// cycles.
    pub fn deadlock(&self, asleep: bool, others: usize) -> Option<Deadlock> {
        let search = Search::of(self)?;
        let cycles = search.cycles();
        let lost = !cycles.is_empty() || asleep && search.all_wait_for_others();
        if lost { search.report(&cycles, others) } else { None }
    }

    fn tell(&self, deadlock: &Deadlock) {
        match &self.options.on_deadlock {
            Some(hook) => as_somebody(|| hook(deadlock)),
            // Whoever closed it does not want to know.
            None => _ = writeln!(io::stderr(), "{deadlock}"),
        }
    }
}
