//! The agent: the worker's own stack, which polls when no fiber is runnable.

use std::sync::atomic::Ordering;
use std::time::Duration;

use daiko_core::announce::{Announcement, LastLook};
use daiko_core::barrier::{Barrier, Fences};
use daiko_core::fiber::{Effect, Event};
use daiko_core::governor::{Decision, Permit};
use daiko_sys::{clock, futex};

use super::Worker;
use super::bells::Spin;
use super::succession::Rest;
use crate::fiber::ControlBlock;
use crate::runtime::kernel::ThisThread;
use crate::runtime::phase;

/// Time between two looks at other workers' queues, and before the first, in nanoseconds.
const STEAL_NS: u64 = 3_000;
/// Looks at the inbox between two looks at everything else and at the clock.
const INBOX_LOOKS: u32 = 16;

impl Worker {
    /// Runs fibers and polls, until the runtime ends.
    pub(super) fn run_agent(&self) {
        while !self.is_done() {
            while let Some(fiber) = self.pick() {
                self.resume(fiber);
            }
            if !self.poll_sources() && !self.is_done() {
                self.rest();
            }
        }
        // The others may have parked before the last fiber ended, here.
        self.runtime().unpark_all();
    }

    /// Looks once at all that can make a fiber runnable; true if one may be.
    ///
    /// In order of cost. The agent calls it when nothing is runnable, a running fiber's pick at
    /// every 61st pick.
    pub(super) fn poll_sources(&self) -> bool {
        self.counters.polls.add(1);
        if self.is_expected() {
            self.arrive();
        }
        if self.inbox.has_mail() {
            self.read_mail();
        }
        let mut found = self.fire_timers();
        found |= self.take_calls();
        found |= self.take_injected();
        found |= self.sample_watches();
        found |= self.poll_io();
        found |= self.runtime().pollers.poll();
        let phase = self.runtime().phase();
        if phase != self.phase.replace(phase) {
            self.unwind_fibers();
        }
        found || self.has_runnable()
    }

    /// Samples one slice of the watches: its own, and those of others if it is to.
    fn sample_watches(&self) -> bool {
        let found = self.sample(self);
        if found || !self.samples_for_others() {
            return found;
        }
        let others = self.runtime().all_workers().iter();
        // All of them: one that always hits must not hide those behind it.
        let hits = others.filter(|other| other.index != self.index && self.sample(other));
        hits.count() > 0
    }

    #[inline]
    fn sample(&self, of: &Worker) -> bool {
        let hit = of.watches.scan() | of.areas.scan();
        if hit {
            self.counters.watch_hits.add(1);
        }
        hit
    }

    #[inline]
    fn samples_for_others(&self) -> bool {
        let runtime = self.runtime();
        runtime.options.any_agent || runtime.stand_in.load(Ordering::Relaxed)
    }

    /// Takes this worker's share of the fibers that anyone may start.
    fn take_injected(&self) -> bool {
        let runtime = self.runtime();
        if runtime.injector.is_empty() || !self.is_active() {
            return false;
        }
        let share = runtime.injector.len() / runtime.worker_count() + 1;
        let batch = runtime.injector.pop_batch(&ThisThread, share.min(64));
        let found = !batch.is_empty();
        for fiber in batch {
            // SAFETY: a queued fiber is in use.
            self.enqueue_stealable(unsafe { fiber.as_ref() });
        }
        found
    }

    /// Nothing was found: spins or parks, as the governor says, until something may be.
    fn rest(&self) {
        let spin = self.spins_for_others();
        // Mail comes soonest, and costs the others nothing to wait for.
        if spin != Spin::NO && self.spin() {
            return;
        }
        let runtime = self.runtime();
        let mut permit: Option<Permit<'_>> = None;
        let idle_since = clock::monotonic_ns();
        let (mut now, mut last_steal) = (idle_since, idle_since);
        loop {
            let sampled = self.has_silent_work();
            let governed = runtime.governor.decide(&mut permit, idle_since, now, sampled);
            let decision = self.decide_in_company(spin, governed, now - idle_since, sampled);
            match self.decide_beside_siblings(decision, now - idle_since, sampled) {
                Decision::Spin => {
                    if self.spin() || self.poll_sources() || self.is_done() {
                        return;
                    }
                }
                // A last look at the others' queues, which `park_thread` takes for empty.
                Decision::Park | Decision::ParkFor(_) if self.steal() => return,
                Decision::Park => {
                    drop(permit);
                    return self.park_thread(None);
                }
                Decision::ParkFor(ns) => {
                    permit = None;
                    self.park_thread(Some(Duration::from_nanos(ns)));
                    // A sample without a hit is no work: no reason to spin anew.
                    if self.poll_sources() || self.is_done() {
                        return;
                    }
                }
            }
            now = clock::monotonic_ns();
            // Seldom: a look at another worker's queue takes the line from under its hands.
            if now - last_steal >= STEAL_NS {
                if self.steal() {
                    return;
                }
                last_steal = now;
            }
        }
    }

    /// Looks at the inbox a few times, and at what fibers wait for in segments; true if something has come.
    #[inline]
    fn spin(&self) -> bool {
        for _ in 0..INBOX_LOOKS {
            if self.inbox.has_mail() || self.has_rung_watches() && self.sample(self) {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Whether something waits that nobody will tell this worker of.
    fn has_silent_work(&self) -> bool {
        let runtime = self.runtime();
        !runtime.pollers.is_empty()
            || self.has_silent_watches()
            || self.samples_for_others()
                && runtime.all_workers().iter().any(|other| other.is_to_be_sampled_by(self))
    }

    pub(crate) fn has_silent_watches(&self) -> bool {
        self.watches.any_silent() || self.areas.any_silent()
    }

    /// Whether `agent`, which stands in for others, has to look at this worker's watches. What is rung for is
    /// only looked at while this one is awake, as it is not rung for then.
    fn is_to_be_sampled_by(&self, agent: &Worker) -> bool {
        self.has_silent_watches()
            || self.index != agent.index && self.has_rung_watches() && !self.is_parked()
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.inbox.is_parked()
    }

    /// Sleeps until somebody unparks this worker or a timer is due, at most for `sampling` where
    /// something waits that nobody will tell of.
    ///
    /// The order rules out a lost wake-up: say "parked", then look again at all that others may
    /// fill, then sleep. They fill first and look for parked workers afterwards.
    fn park_thread(&self, sampling: Option<Duration>) {
        let runtime = self.runtime();
        if sampling.is_none() {
            // Who sleeps spawns nothing: others may need the stacks.
            self.pool.give_back(&runtime.pool, usize::MAX);
            self.give_back_bells(false);
        }
        self.park_bells();
        self.park_io();
        let look = match sampling {
            None => self.mark_parked(&runtime.idle_barrier()),
            // Work whose maker passes the light half alone may be missed, for as long as this
            // sleeps: then all sources are looked at. README of `core::idle`.
            Some(_) => self.mark_parked(&Fences),
        };
        let Some(look) = look else { return self.unpark_bells() };
        // Who does not sample sleeps only if nothing silent has come either.
        let silent = sampling.is_none() && self.has_silent_work();
        if !silent && !self.has_shared_work(&look) && !self.sees_rung_changes() {
            self.counters.parks.add(1);
            self.sleep(sampling);
        }
        let _ = runtime.idle.retract(self.index as usize);
        if !self.inbox.unpark() {
            // Who has taken the mark touches this worker until he has stored the token: before
            // that neither may go on to its end, nor the runtime.
            self.await_token();
        }
        self.unpark_bells();
        self.unparked.store(0, Ordering::Relaxed);
    }

    /// `None` if there is mail.
    fn mark_parked(&self, barrier: &impl Barrier) -> Option<LastLook> {
        let shared = self.is_active().then(|| (&self.runtime().idle, self.index as usize));
        LastLook::park(&self.inbox, shared, barrier)
    }

    /// The last look before sleep: at what others fill without mail.
    fn has_shared_work(&self, look: &LastLook) -> bool {
        let runtime = self.runtime();
        let stealable = |other: &Worker| !other.ring.steal().is_empty();
        runtime.phase() != self.phase.get()
            || self.is_done()
            || self.areas.has_hit()
            || self.desk.has_news()
            || self.has_io_jobs(look)
            || self.is_active()
                && (!runtime.injector.is_empty() || runtime.all_workers().iter().any(stealable))
    }

    fn sleep(&self, sampling: Option<Duration>) {
        let monitor = &self.runtime().monitor;
        if sampling.is_none() {
            monitor.worker_parks();
        }
        self.note_rest(if sampling.is_none() { Rest::Parked } else { Rest::Sampling });
        // Only this worker arms its timers, so none comes that is due sooner.
        let timer = self.timers.next_due().left();
        let timeout = sampling.into_iter().chain(timer).min();
        if self.sleeps_in_selector() {
            self.sleep_in_selector(self.look_out_for_bells(timeout));
        } else if self.has_parked_bells() {
            self.sleep_on_bells(&self.unparked, timeout);
        } else {
            self.sleep_on_token(timeout);
        }
        self.note_rest(Rest::No);
        if sampling.is_none() {
            monitor.worker_runs();
        }
    }

    /// Waits for the token that is on its way.
    fn await_token(&self) {
        if !self.sleeps_on_bell() && !self.sleeps_in_selector() {
            return self.sleep_on_token(None);
        }
        // Stored right behind the ring that has ended the sleep, or would have.
        // Acquire: pairs with the Release in `unpark_thread`.
        while self.unparked.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
    }

    fn sleep_on_token(&self, timeout: Option<Duration>) {
        let scope = self.runtime().scope();
        // Acquire: pairs with the Release in `unpark_thread`.
        while self.unparked.load(Ordering::Acquire) == 0 {
            match futex::wait(&self.unparked, 0, timeout, scope) {
                futex::Wait::TimedOut => return,
                futex::Wait::Woken | futex::Wait::Changed | futex::Wait::Interrupted => {}
            }
        }
    }

    /// Unparks this worker, if it is parked, so that it looks for the changes that are `announced`.
    #[inline]
    pub(crate) fn unpark_for(&self, announced: &Announcement) {
        if announced.finds_parked(&self.inbox) {
            self.unpark_thread(super::current());
        }
    }

    /// Unparks this worker, which the caller has taken out of the set of parked workers.
    pub(crate) fn unpark_picked(&self, from: Option<&Worker>) {
        if self.inbox.unpark() {
            self.unpark_thread(from);
        }
    }

    /// Wakes the kernel thread, whose parked mark the caller has taken. Once the token is stored
    /// the worker may end.
    pub(super) fn unpark_thread(&self, from: Option<&Worker>) {
        if let Some(from) = from {
            from.counters.unparks.add(1);
        }
        if self.sleeps_in_selector() {
            self.ring_selector();
            // Release: as below.
            return self.unparked.store(1, Ordering::Release);
        }
        let (word, scope) = match self.ring_own_bell() {
            Some(word) => (word, futex::Scope::Shared),
            None => (&raw const self.unparked, self.runtime().scope()),
        };
        // Release: pairs with the Acquire in `sleep_on_token` and `await_token`.
        self.unparked.store(1, Ordering::Release);
        futex::wake_addr(word, 1, scope);
    }

    /// Whether the worker's thread may end.
    pub(super) fn is_done(&self) -> bool {
        let runtime = self.runtime();
        match runtime.phase() {
            phase::RUNNING => false,
            phase::UNWINDING => {
                runtime.is_unwound() && !self.has_runnable() && !self.inbox.has_mail()
            }
            _ => true,
        }
    }

    /// Cancels the started fibers of this worker, once: from then on each is unwound where it
    /// suspends next.
    fn unwind_fibers(&self) {
        self.for_each_own(|fiber| {
            if fiber.apply(Event::Cancel) == Effect::Enqueue && !self.sent_home(fiber) {
                self.enqueue(fiber);
            }
        });
    }

    /// Calls `each` with the started fibers of this worker. Only the owner.
    pub(super) fn for_each_own(&self, mut each: impl FnMut(&ControlBlock)) {
        self.runtime().pool.for_each(|fiber| {
            if fiber.is_used() && fiber.owner.is(self) {
                each(fiber);
            }
        });
    }
}
