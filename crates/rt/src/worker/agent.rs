//! The agent: the worker's own stack, which polls when no fiber is runnable.

use std::ptr;
use std::time::Duration;

use daiko_core::announce::{Announcement, LastLook};
use daiko_core::barrier::{Barrier, Fences};
use daiko_core::bed::WorkerBed;
use daiko_core::fiber::{Effect, Transition};
use daiko_core::governor::{Company, Decision, Idle, SpinPermit};
use daiko_core::hosting::Return;
use daiko_core::place;
use daiko_core::trace::Event;
use daiko_sys::{clock, futex, policy};

use super::Worker;
use super::policy::SpinPolicy;
use super::source::{Bed, Round, Source, WakeBy};
use crate::atomic::Ordering;
use crate::call::InCall;
use crate::deadline::Deadline;
use crate::fiber::ControlBlock;
use crate::runtime::kernel::ThisThread;
use crate::runtime::phase;

/// Time between two looks at other workers' queues, and before the first, in nanoseconds.
const STEAL_NS: u64 = 3_000;
/// Looks at the inbox between two looks at everything else and at the clock.
const INBOX_LOOKS: u32 = 16;
/// Longest wait by one instruction in place of these looks, in ticks of the time stamp counter:
/// half a microsecond at 2 GHz, about as long as the looks take.
const USER_WAIT_TICKS: u32 = 1024;

impl Worker {
    /// Runs fibers and polls, until the runtime ends.
    pub(super) fn run_agent(&self) {
        while !self.is_done() {
            while let Some(fiber) = self.pick() {
                self.resume(fiber);
                self.run_guests();
            }
            if !self.run_guests() && !self.poll_sources(Round::Idle) && !self.is_done() {
                self.idle();
                self.count_in();
            }
        }
        // The other workers may have parked before the last fiber ended here.
        self.runtime().unpark_all(InCall::agent(self));
    }

    /// Calls `each` with every source of this worker, in order of cost: first those of the
    /// runtime, which are entered here, then those of clients.
    #[inline]
    fn each_own_source(&self, mut each: impl FnMut(&dyn Source)) {
        each(&Mail);
        each(&self.timers);
        each(&self.submissions);
        each(&Injected);
        each(&self.watches);
        self.sources.each(|_, source| each(source));
        each(&Theft);
    }

    /// Calls `each` with every source that this worker polls.
    #[inline]
    fn each_source(&self, mut each: impl FnMut(&dyn Source)) {
        self.each_own_source(&mut each);
        self.runtime().sources.each(|_, source| each(source));
    }

    /// Polls each source once; returns true if a fiber may be runnable.
    ///
    /// The agent calls it when nothing is runnable, a running fiber's pick at every 61st pick.
    #[inline(never)]
    pub(super) fn poll_sources(&self, round: Round) -> bool {
        self.counters.polls.add(1);
        self.follow_reader();
        if self.is_expected() {
            self.arrive();
        }
        let mut found = false;
        self.each_source(|source| found |= source.poll(self, round));
        if self.polls_for_others() {
            found |= self.poll_sources_of_others(round);
        }
        let phase = self.runtime().phase();
        if phase != self.phase.replace(phase) {
            self.unwind_fibers();
        }
        let found = found || self.has_runnable();
        if found {
            self.trace(|| Event::PollHit);
        }
        found
    }

    /// Calls `scan` once for each of a source's `slices`, up to the first hit, and after the first
    /// slice only while there is no message for this worker; returns true if there was a hit.
    #[inline]
    pub fn scan_slices(&self, slices: usize, mut scan: impl FnMut() -> bool) -> bool {
        let goes_on = |&slice: &usize| slice == 0 || !self.inbox.has_mail();
        (0..slices).take_while(goes_on).any(|_| scan())
    }

    /// Returns true if this worker polls the sources of other workers while their agents are
    /// busy.
    #[inline]
    fn polls_for_others(&self) -> bool {
        let runtime = self.runtime();
        runtime.options.any_agent || runtime.stand_in.load(Ordering::Relaxed)
    }

    #[cold]
    fn poll_sources_of_others(&self, round: Round) -> bool {
        let mut found = false;
        let others = self.runtime().all_workers().iter().filter(|other| other.index != self.index);
        for other in others {
            // All of them are polled: a source that always hits must not hide those behind it.
            other.each_own_source(|source| {
                found |= source.may_be_polled_elsewhere() && source.poll(self, round);
            });
        }
        found
    }

    /// Spins or parks, as the governor decides, until there may be something to run. Called after a
    /// look that found nothing.
    fn idle(&self) {
        let company = self.company();
        let may_spin = self.runtime().governor.may_spin_for(company);
        // The inbox comes first: messages come soonest, and cost their senders nothing to wait for.
        if may_spin && self.begin_to_spin(company) {
            return self.idle_times.note(0);
        }
        let since = clock::monotonic_ns();
        self.await_work(company, since);
        self.idle_times.note(self.event_ns(since) - since);
    }

    /// Returns the time of the event that has ended an idle time: that of the wake, if one has
    /// ended a sleep `since` then. The time from the wake to the run of this worker is not idle:
    /// two workers that wake each other would take it for a reason to sleep.
    fn event_ns(&self, since: u64) -> u64 {
        let (now, woken) = (clock::monotonic_ns(), self.woken_ns.load(Ordering::Relaxed));
        if (since..now).contains(&woken) { woken } else { now }
    }

    fn await_work(&self, company: Company, idle_since: u64) {
        let mut permit: Option<SpinPermit<'_>> = None;
        let (mut now, mut last_steal) = (idle_since, idle_since);
        let mut policy = SpinPolicy::new();
        loop {
            match self.decide(&mut permit, &mut policy, now - idle_since, company) {
                Decision::Spin => {
                    self.count_in();
                    // Rarely: a look at another worker's queue takes the line away from its owner.
                    let round = match now - last_steal >= STEAL_NS {
                        true => Round::IdleForLong,
                        false => Round::Idle,
                    };
                    if round == Round::IdleForLong {
                        last_steal = now;
                    }
                    if self.spin() || self.poll_sources(round) || self.is_done() {
                        return;
                    }
                }
                // A last look at the queues of other workers, which `park_thread` takes for empty.
                Decision::Park | Decision::ParkFor(_) if self.steal() => return,
                Decision::Park => {
                    drop(permit);
                    // There are no polled sources any more: the monitor looks anew for deadlocks.
                    self.count_in();
                    return self.park_thread(None);
                }
                Decision::ParkFor(ns) => {
                    self.park_thread(Some(Duration::from_nanos(ns)));
                    // A poll without a hit is no work, and so no reason to spin anew.
                    let found = self.poll_sources(Round::Slept);
                    if found || self.guests_have_work() || self.is_done() {
                        return;
                    }
                }
            }
            now = clock::monotonic_ns();
        }
    }

    /// Asks the governor for the next step.
    fn decide<'g>(
        &'g self,
        permit: &mut Option<SpinPermit<'g>>,
        policy: &mut SpinPolicy,
        idle_ns: u64,
        company: Company,
    ) -> Decision {
        let governor = &self.runtime().governor;
        let mut idle = self.idle_for(idle_ns, company);
        let decision = governor.decide(permit, &idle);
        if decision == Decision::Spin && policy.ends_spin(idle_ns, policy::is_real_time) {
            idle.gives_way = true;
            return governor.decide(permit, &idle);
        }
        decision
    }

    /// Describes the state of this agent to the governor.
    fn idle_for(&self, idle_ns: u64, company: Company) -> Idle {
        Idle {
            idle_ns,
            polled: self.has_polled_work(),
            company: company.and(self.declared_company()),
            has_seat: company.is_none() || self.has_seat(),
            gives_way: !self.is_active()
                || self.has_siblings() && place::gives_way(self.beside(), idle_ns)
                || self.keeps_addressee_waiting(idle_ns),
        }
    }

    /// Returns the peer processes that fibers of this worker wait for.
    fn company(&self) -> Company {
        let mut company = Company::default();
        self.sources.each(|_, source| company = company.and(source.company()));
        company
    }

    /// Returns the parties that have a CPU of their own, by the word of their waiters. They need no
    /// seat, and begin and end while the agent spins.
    fn declared_company(&self) -> Company {
        let mut elsewhere = false;
        self.each_source(|source| elsewhere |= source.has_peer_elsewhere());
        Company { elsewhere, here: false }
    }

    fn has_seat(&self) -> bool {
        let mut has_seat = true;
        self.sources.each(|_, source| has_seat &= source.has_seat());
        has_seat
    }

    fn begin_to_spin(&self, company: Company) -> bool {
        if !company.is_none() {
            self.sources.each(|_, source| source.take_seat());
        }
        self.spin()
    }

    /// Looks a few times at the inbox, and at sources that change as quickly; returns true if there
    /// was an event.
    #[inline]
    fn spin(&self) -> bool {
        if let Some(user_wait) = self.runtime().options.user_wait
            && self.inbox_is_all()
        {
            let is_silent = || !self.inbox.has_mail();
            user_wait.wait_while(&*self.inbox, USER_WAIT_TICKS, is_silent);
            return self.inbox.has_mail();
        }
        for _ in 0..INBOX_LOOKS {
            let mut found = self.inbox.has_mail();
            self.sources.each(|_, source| found |= source.peek(self));
            if found || self.guests_have_work() {
                return true;
            }
            crate::atomic::spin_loop();
        }
        false
    }

    /// Returns true if no word but that of the inbox has to be seen as soon as it changes: no
    /// source of a client, no polled source, no inbox of a guest.
    fn inbox_is_all(&self) -> bool {
        !self.sources.has_any() && self.guests.get() == 0 && !self.has_polled_work()
    }

    /// Returns true if a source that this worker polls may change without an announcement.
    fn has_polled_work(&self) -> bool {
        let mut polled = false;
        // Active workers poll the sources of the runtime.
        match self.is_active() {
            true => self.each_source(|source| polled |= source.is_polled()),
            false => self.each_own_source(|source| polled |= source.is_polled()),
        }
        polled
            || self.polls_for_others()
                && self.runtime().all_workers().iter().any(|other| other.needs_stand_in(self))
    }

    /// Returns true if `agent`, which polls for other workers, has to poll sources of this worker.
    /// A sleeping worker is notified of events that an awake worker finds only by looking.
    fn needs_stand_in(&self, agent: &Worker) -> bool {
        let is_awake = self.index != agent.index && !self.is_parked();
        let mut needs = false;
        self.each_own_source(|source| {
            needs |= source.may_be_polled_elsewhere()
                && (source.is_polled() || is_awake && source.is_awaited());
        });
        needs
    }

    /// Returns true if one of this worker's own sources may have an event that a worker finds only
    /// by looking. Any thread.
    pub(crate) fn is_awaited(&self) -> bool {
        let mut awaited = false;
        self.each_own_source(|source| awaited |= source.is_awaited());
        awaited
    }

    pub fn is_parked(&self) -> bool {
        self.inbox.is_parked()
    }

    /// Sleeps until another thread unparks this worker or a timer is due, for at most `polling` if
    /// a source has to be polled.
    ///
    /// The order rules out a lost wake-up: the worker marks itself parked, looks again at all
    /// places that other threads may fill, then sleeps. Those threads first fill the place and then
    /// look for parked workers.
    fn park_thread(&self, polling: Option<Duration>) {
        let runtime = self.runtime();
        if self.guests.get() != 0 && !self.puts_guests_back() {
            return;
        }
        if polling.is_none() {
            // A worker that sleeps spawns nothing, and other workers may need the stacks.
            self.pool.give_back(InCall::agent(self), &runtime.pool);
        }
        if !self.is_active() {
            self.pass_work_on();
        }
        let (bed, sampled) = self.park_sources(polling.is_none());
        let active = self.is_active();
        let look = self.bed.lie_down(bed, || match polling {
            None => self.mark_parked(active, &runtime.idle_barrier()),
            // A thread that adds work and passes only the light half of the barrier may miss this
            // worker, until this sleep ends: then all sources are polled. README of `core::idle`.
            Some(_) => self.mark_parked(active, &Fences),
        });
        let Some(look) = look else { return self.rise() };
        let mut returned = Return::Alone;
        // A worker that does not poll sleeps only if no polled source has appeared either.
        let polled = polling.is_none() && self.has_polled_work();
        // Nor if it has become active, and has not announced itself to makers of work.
        if !polled && !self.has_shared_work(&look) && self.is_active() == active {
            self.counters.parks.add(1);
            returned = self.sleep(polling, sampled);
        }
        self.come_back(returned);
        let _ = runtime.idle.retract(self.index as usize);
        self.note_sleep();
        self.rise();
    }

    /// Tells the governor how long ago the wake was that has ended a sleep, if one has.
    fn note_sleep(&self) {
        // Relaxed, the time: it was stored before the token.
        if self.bed.has_token() {
            let woken_ns = self.woken_ns.load(Ordering::Relaxed);
            let cost_ns = clock::monotonic_ns().saturating_sub(woken_ns);
            self.runtime().governor.sleep.note(cost_ns);
        }
    }

    /// Wakes another worker for work that was meant for this one before it began to stand by.
    fn pass_work_on(&self) {
        let (runtime, call) = (self.runtime(), InCall::agent(self));
        for fiber in self.placed.pop_batch(ThisThread::of(call), usize::MAX) {
            // SAFETY: a queued fiber is in use.
            self.take_back(call, unsafe { fiber.as_ref() });
        }
        while let Some(fiber) = self.stealable().pop() {
            // SAFETY: a queued fiber is in use.
            runtime.inject_one(call, unsafe { fiber.as_ref() });
        }
        if !runtime.injector.is_empty() {
            runtime.wake_one(call);
        }
    }

    /// Marks this worker parked, and passes the barrier; returns `None` if there are messages.
    fn mark_parked(&self, active: bool, barrier: &impl Barrier) -> Option<LastLook> {
        let shared = active.then(|| (&self.runtime().idle, self.index as usize));
        LastLook::park(&self.inbox, shared, barrier)
    }

    /// Prepares the sources for a sleep. Returns the source that has a bed, if any does, and the
    /// maximum time of the sleep, if sources have beds that were not chosen: these cannot end it.
    fn park_sources(&self, for_good: bool) -> (Option<u32>, Option<Duration>) {
        let (mut bed, mut sampled) = (None, None);
        self.sources.each(|index, source| match source.park(for_good) {
            Bed::Own { .. } if bed.is_none() => bed = Some(index),
            Bed::Own { sampled: often } => sampled = sampled.into_iter().chain([often]).min(),
            Bed::Token => {}
        });
        (bed, sampled)
    }

    fn rise(&self) {
        self.bed.rise();
        self.sources.each(|_, source| source.unpark());
    }

    /// Takes the last look before a sleep, at the places that other threads fill without a message.
    fn has_shared_work(&self, look: &LastLook) -> bool {
        let mut pending = self.runtime().phase() != self.phase.get() || self.is_done();
        self.each_source(|source| pending = pending || source.is_pending(self, look));
        pending
    }

    /// Returns the state in which the thread finds the worker afterwards.
    fn sleep(&self, polling: Option<Duration>, sampled: Option<Duration>) -> Return {
        self.count_out();
        self.trace(|| Event::Sleep);
        self.note_sleeping(true);
        // Only this worker arms its timers, so none comes that is due sooner.
        let mut due = Deadline::NEVER;
        self.each_source(|source| due = due.min(source.next_due()));
        if let Some(soonest) = polling.into_iter().chain(sampled).min() {
            due = due.min(Deadline::after(soonest));
        }
        let returned = match self.bed.source().and_then(|bed| self.sources.at(bed)) {
            Some(source) => {
                source.sleep(self, self.bed.word(), due);
                Return::Alone
            }
            None if polling.is_none() && self.may_be_hosted() => {
                self.sleeps_until.set(due);
                self.hosting.sleep();
                self.sleep_on_token(due);
                self.hosting.come_back()
            }
            None => {
                self.sleep_on_token(due);
                Return::Alone
            }
        };
        if returned == Return::Alone {
            self.note_sleeping(false);
            self.trace(|| Event::Awake);
            self.note_cpu();
        }
        returned
    }

    /// Waits for the token that is on its way.
    pub(super) fn await_token(&self) {
        if self.bed.source().is_none() {
            return self.sleep_on_token(Deadline::NEVER);
        }
        // A spin is enough: the token comes right after the ring of the bed.
        while !self.bed.has_token() {
            policy::give_way();
        }
    }

    fn sleep_on_token(&self, due: Deadline) {
        let scope = self.runtime().scope();
        while !self.bed.has_token() {
            match futex::wait(self.bed.word(), WorkerBed::NO_TOKEN, due.ns(), scope) {
                futex::WaitEnd::TimedOut => return,
                futex::WaitEnd::Woken | futex::WaitEnd::Changed | futex::WaitEnd::Interrupted => {}
            }
        }
    }

    /// Unparks this worker, if it is parked, so that it looks for the changes that are `announced`.
    #[inline]
    pub fn unpark_for(&self, announced: &Announcement) {
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

    /// Wakes the kernel thread. The caller has taken its parked mark. Once the token is stored
    /// the worker may end.
    pub(super) fn unpark_thread(&self, from: Option<&Worker>) {
        if let Some(from) = from {
            from.counters.unparks.add(1);
            from.note_addressee(self);
        }
        self.woken_ns.store(clock::monotonic_ns(), Ordering::Relaxed);
        let source = |bed: u32| self.sources.at(bed);
        let owed =
            self.bed.wake(|bed| match bed.and_then(source).map_or(WakeBy::Token, Source::ring) {
                WakeBy::Token => Some((ptr::from_ref(self.bed.word()), self.runtime().scope())),
                WakeBy::Word(word) => Some((word, futex::Scope::Shared)),
                WakeBy::Done => None,
            });
        if let Some((word, scope)) = owed {
            futex::wake_addr(word, 1, scope);
        }
    }

    /// Takes this worker's share of the fibers that any worker may start.
    fn take_injected(&self) -> bool {
        let runtime = self.runtime();
        if runtime.injector.is_empty() || !self.is_active() {
            return false;
        }
        let share = runtime.injector.len() / runtime.worker_count() + 1;
        let call = InCall::agent(self);
        let batch = runtime.injector.pop_batch(ThisThread::of(call), share.min(64));
        let found = !batch.is_empty();
        for fiber in batch {
            // SAFETY: a queued fiber is in use.
            self.enqueue_stealable(call, unsafe { fiber.as_ref() });
        }
        found
    }

    /// Returns true if the worker's thread may end.
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
        let call = InCall::agent(self);
        self.for_each_own(|fiber| {
            if fiber.apply(call, Transition::Cancel) == Effect::Enqueue
                && !self.sent_home(call, fiber)
            {
                self.enqueue(call, fiber);
            }
        });
    }

    /// Calls `each` with the started fibers of this worker. Only the owner.
    pub(super) fn for_each_own(&self, mut each: impl FnMut(&ControlBlock)) {
        self.runtime().pool.for_each(InCall::agent(self), |fiber| {
            if fiber.is_used() && fiber.owner.is(self) {
                each(fiber);
            }
        });
    }
}

/// Messages from other threads to this worker.
struct Mail;

impl Source for Mail {
    fn poll(&self, by: &Worker, _: Round) -> bool {
        if by.inbox.has_mail() {
            by.read_mail();
        }
        false
    }
}

/// The fibers that any worker may start.
struct Injected;

impl Source for Injected {
    fn poll(&self, by: &Worker, _: Round) -> bool {
        by.take_injected()
    }

    fn is_pending(&self, by: &Worker, _: &LastLook) -> bool {
        by.is_active() && !by.runtime().injector.is_empty()
    }
}

/// The queues of other workers, and the offers of this one.
struct Theft;

impl Source for Theft {
    fn poll(&self, by: &Worker, round: Round) -> bool {
        by.begin_own_offer() || matches!(round, Round::IdleForLong | Round::Slept) && by.steal()
    }

    fn is_pending(&self, by: &Worker, _: &LastLook) -> bool {
        let stealable = |other: &Worker| !other.ring.steal().is_empty() || by.sees_offer_of(other);
        by.is_active() && by.runtime().all_workers().iter().any(stealable)
    }
}
