//! What a worker sleeps on while its fibers wait in segments, and how long it spins for them.

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use daiko_core::doorbell::Doorbell;
use daiko_core::governor::{Decision, Preset};
use daiko_shm::{Bell, Company, Segment};
use daiko_sys::futex::{self, Scope};
use daiko_sys::{clock, cpu};

use super::Worker;
use crate::shm::ROUND;

/// How long an agent spins for other processes where some of them need its CPU: some round trips.
const SHARED_SPIN_NS: u64 = 4_000;
/// So often an agent gives its CPU to those who share it before it sleeps.
const YIELDS: u32 = 2;
/// What a yield takes at most if only those run meanwhile who are to, and briefly.
const LONG_YIELD_NS: u64 = 200_000;
/// Sleeps after one that took longer.
const SLEEPS: u32 = 100;
/// How often an agent looks that cannot sleep on all its doorbells.
const SAMPLE: Duration = Duration::from_millis(1);

/// The doorbells of a worker, one in each segment in which fibers have waited here.
pub(crate) struct Bells {
    /// Only the owner.
    all: UnsafeCell<Vec<Bell>>,
    /// The one that the worker sleeps on; null: its own token. Written by the owner before its inbox says
    /// that it is parked, read by who has taken that mark.
    slept_on: AtomicPtr<Doorbell>,
    /// Whether the worker's sleep ends by a ring, too, as was decided when it said so. Only the owner.
    parked: Cell<bool>,
    /// How often to sleep before the CPU is given away again instead. Only the owner.
    sleeps: Cell<u32>,
}

/// The doorbell of the calling thread in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnBell {
    pub(crate) number: usize,
    /// The CPU that the thread is bound to.
    pub(crate) cpu: Option<u32>,
}

impl OwnBell {
    #[inline]
    pub(crate) fn of(bell: &Bell) -> Self {
        OwnBell { number: bell.number(), cpu: bell.doorbell().cpu() }
    }
}

/// How long an agent spins whose fibers wait in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spin {
    /// As the governor says.
    AsGoverned,
    /// For so many nanoseconds without work, `None` is without limit: also where the process has one CPU alone,
    /// since those whom it waits for run on others.
    For(Option<u64>),
}

impl Spin {
    /// Not at all: who is awake needs this CPU.
    pub(super) const NO: Spin = Spin::For(Some(0));
}

impl Bells {
    pub(crate) const fn new() -> Self {
        Bells {
            all: UnsafeCell::new(Vec::new()),
            slept_on: AtomicPtr::new(ptr::null_mut()),
            parked: Cell::new(false),
            sleeps: Cell::new(0),
        }
    }

    /// # Safety
    ///
    /// Only the owner calls, and uses what comes before it calls anything else of this type.
    #[expect(clippy::mut_from_ref, reason = "the owner's alone")]
    unsafe fn all(&self) -> &mut Vec<Bell> {
        // SAFETY: passed on to the caller.
        unsafe { &mut *self.all.get() }
    }
}

impl Worker {
    /// This worker's doorbell in `segment`; `None` if there is none left there. Only the owner.
    #[inline]
    pub(crate) fn bell_in(&self, segment: &Segment) -> Option<OwnBell> {
        // SAFETY: the owner calls.
        let bells = unsafe { self.bells.all() };
        let bell = bells.iter().find(|bell| bell.segment().is(segment));
        bell.map(OwnBell::of).or_else(|| self.new_bell_in(segment))
    }

    #[cold]
    fn new_bell_in(&self, segment: &Segment) -> Option<OwnBell> {
        assert!(
            self.runtime().scope() == Scope::Private,
            "daiko: a segment is attached to by one process; its objects are not for fibers that change process"
        );
        let bell = new_bell(segment)?;
        let own = OwnBell::of(&bell);
        // SAFETY: the owner calls.
        unsafe { self.bells.all() }.push(bell);
        Some(own)
    }

    /// Gives the doorbells back of segments that nobody else of this process uses, or all. Only the owner.
    pub(super) fn give_back_bells(&self, all: bool) {
        // SAFETY: the owner calls.
        unsafe { self.bells.all() }.retain(|bell| !all && bell.segment().is_in_use());
    }

    /// Lets those who share this CPU go on, while nothing else could run here, until `come`; whether it has. It costs less
    /// than to sleep and be woken: neither side needs another system call.
    ///
    /// Whoever else the CPU is shared with may keep it for a time slice. After that has happened, this worker sleeps
    /// for a while instead, as who is woken has to wait less. Only the owner.
    pub(crate) fn yields_until(&self, come: impl Fn() -> bool) -> bool {
        if let Some(left) = self.bells.sleeps.get().checked_sub(1) {
            self.bells.sleeps.set(left);
            return false;
        }
        let begun = clock::monotonic_ns();
        let yields = || {
            std::thread::yield_now();
            come()
        };
        let has_come = (0..YIELDS).any(|_| !self.has_other_work() && yields());
        if clock::monotonic_ns() - begun > LONG_YIELD_NS {
            self.bells.sleeps.set(SLEEPS);
        }
        has_come
    }

    /// Who else is awake in the segments that are waited for here. Only the owner.
    pub(crate) fn company(&self) -> Company {
        // SAFETY: the owner calls.
        let bells = unsafe { self.bells.all() };
        let company = bells.iter().map(|bell| bell.company(bell.doorbell().cpu()));
        company.fold(Company::default(), |all, one| Company {
            elsewhere: all.elsewhere || one.elsewhere,
            here: all.here || one.here,
        })
    }

    /// Whether fibers wait in segments, whose words are sampled here.
    #[inline]
    pub(crate) fn has_rung_watches(&self) -> bool {
        self.watches.any_rung()
    }

    /// Whether to spin for other processes. Only the owner.
    pub(super) fn spins_for_others(&self) -> Spin {
        if !self.has_rung_watches() {
            return Spin::AsGoverned;
        }
        let all = self.company();
        let spin = match (all.elsewhere, all.here, self.runtime().governor.preset()) {
            (false, false, _) => return Spin::AsGoverned,
            (false, true, _) | (true, true, Preset::Power) => return Spin::NO,
            (true, true, _) => Spin::For(Some(SHARED_SPIN_NS)),
            (true, false, preset) => Spin::For(preset.spin_ns()),
        };
        self.take_seats();
        spin
    }

    /// What the governor has decided, but for what the company of other processes demands.
    pub(super) fn decide_in_company(
        &self,
        spin: Spin,
        governed: Decision,
        idle_ns: u64,
        silent: bool,
    ) -> Decision {
        match (spin, governed) {
            (Spin::AsGoverned, _) => governed,
            (Spin::For(budget), _)
                if budget.is_none_or(|budget| idle_ns < budget) && self.has_seats() =>
            {
                Decision::Spin
            }
            (_, Decision::Spin) => self.runtime().governor.preset().rest(silent),
            _ => governed,
        }
    }

    /// Sits down to spin on this CPU, where the worker is bound to one. Only the owner.
    fn take_seats(&self) {
        self.for_each_seat(|bell, cpu| bell.seat(cpu).take(bell.number()));
    }

    /// Whether nobody of another process has begun to spin on this CPU. Only the owner.
    fn has_seats(&self) -> bool {
        let mut all = true;
        self.for_each_seat(|bell, cpu| all &= bell.seat(cpu).is_of(bell.number()));
        all
    }

    fn for_each_seat(&self, mut each: impl FnMut(&Bell, u32)) {
        // SAFETY: the owner calls.
        for bell in unsafe { self.bells.all() } {
            if let Some(cpu) = bell.doorbell().cpu() {
                each(bell, cpu);
            }
        }
    }

    /// Says in all segments that this worker is about to sleep, and on which word it will, before its inbox says
    /// so. The look that follows is [`sees_rung_changes`](Self::sees_rung_changes).
    pub(super) fn park_bells(&self) {
        // SAFETY: the owner calls.
        let bells = unsafe { self.bells.all() };
        self.bells.parked.set(self.has_rung_watches());
        if !self.bells.parked.get() {
            return bells.iter().for_each(|bell| bell.doorbell().rest());
        }
        bells.iter().for_each(|bell| bell.doorbell().park());
        let slept_on = match &bells[..] {
            [one] => ptr::from_ref(one.doorbell()).cast_mut(),
            _ => ptr::null_mut(),
        };
        // Relaxed: published by the mark in the inbox.
        self.bells.slept_on.store(slept_on, Ordering::Relaxed);
    }

    pub(super) fn unpark_bells(&self) {
        self.bells.slept_on.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the owner calls.
        unsafe { self.bells.all() }.iter().for_each(|bell| bell.doorbell().unpark());
    }

    /// The last look before a sleep, once the doorbells are parked: whether something has come.
    pub(super) fn sees_rung_changes(&self) -> bool {
        self.has_rung_watches() && self.watches.scan_all()
    }

    /// Whether it sleeps on doorbells. Others may end its last watch in the meantime, but who unparks it wakes the word
    /// that it has named. Only the owner.
    pub(super) fn has_parked_bells(&self) -> bool {
        self.bells.parked.get()
    }

    /// Sleeps until the worker is unparked, or somebody rings, at most for `timeout`, or until it is time to look.
    pub(super) fn sleep_on_bells(&self, token: &AtomicU32, timeout: Option<Duration>) {
        // SAFETY: the owner calls.
        let bells = unsafe { self.bells.all() };
        let timeout = Some(timeout.map_or(ROUND, |timeout| timeout.min(ROUND)));
        if let [one] = &bells[..] {
            if one.doorbell().is_parked() {
                let word = one.doorbell().word();
                let _ = futex::wait(word, Doorbell::PARKED, timeout, Scope::Shared);
            }
            return;
        }
        let words =
            bells.iter().map(|bell| (bell.doorbell().word(), Doorbell::PARKED, Scope::Shared));
        let words: Vec<_> =
            words.chain([(token, 0, Scope::Private)]).take(futex::MOST_WORDS).collect();
        if words.len() > bells.len() && futex::wait_any(&words, timeout).is_some() {
            return;
        }
        // The kernel does not wait for as many words: the changes are sampled instead.
        let timeout = timeout.map_or(SAMPLE, |timeout| timeout.min(SAMPLE));
        let _ = futex::wait(token, 0, Some(timeout), Scope::Private);
    }

    /// How long to sleep elsewhere for at most, where no ring is heard: so the changes are sampled. Only the owner.
    pub(super) fn look_out_for_bells(&self, timeout: Option<Duration>) -> Option<Duration> {
        if !self.has_parked_bells() {
            return timeout;
        }
        Some(timeout.map_or(SAMPLE, |timeout| timeout.min(SAMPLE)))
    }

    /// Whether this worker sleeps on a doorbell, or was about to. Only the owner.
    pub(super) fn sleeps_on_bell(&self) -> bool {
        !self.bells.slept_on.load(Ordering::Relaxed).is_null()
    }

    /// The doorbell that this parked worker sleeps on, if not on its token: rung for it. For who has taken the
    /// mark of its inbox.
    pub(super) fn ring_own_bell(&self) -> Option<*const AtomicU32> {
        // SAFETY: a worker that sleeps on a doorbell keeps it until it has found its token, which is stored after
        // this.
        let bell = unsafe { self.bells.slept_on.load(Ordering::Relaxed).as_ref() }?;
        let _ = bell.ring(None);
        Some(ptr::from_ref(bell.word()))
    }
}

/// A doorbell for the calling thread; `None` if there is none left.
pub(crate) fn new_bell(segment: &Segment) -> Option<Bell> {
    let bell = segment.doorbell().ok()?;
    bell.doorbell().set_cpu(bound_to());
    Some(bell)
}

/// The one CPU that the calling thread may run on.
fn bound_to() -> Option<u32> {
    let allowed = cpu::allowed().ok()?;
    let mut cpus = allowed.iter();
    cpus.next().filter(|_| cpus.next().is_none()).map(|cpu| cpu as u32)
}
