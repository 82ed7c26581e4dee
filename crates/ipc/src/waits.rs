//! Source of a worker's waits in segments: watches, doorbells, and how long it spins for the peer
//! processes.

use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::time::Duration;

use crate::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::{Bell, Segment};
use daiko_core::announce::LastLook;
use daiko_core::doorbell::Doorbell;
use daiko_core::governor::Company;
use daiko_core::watch::{Notice, Probe, WatchEntry};
use daiko_sys::futex::{self, Scope};
use daiko_sys::{clock, cpu};

use daiko_rt::Deadline;
use daiko_rt::call::InCall;
use daiko_rt::deadlock::WaitTarget;
use daiko_rt::fiber::ControlBlock;
use daiko_rt::worker::{Bed, Round, Source, SourceKey, WakeBy, Watcher, Watches, Worker};

/// The number of the waits in segments among the sources that agents poll.
pub const SEGMENTS: u32 = 2;

// SAFETY: the crate `daiko` has the table of numbers, and checks that each is there once.
const KEY: SourceKey<SegmentWaits> = unsafe { SourceKey::new(SEGMENTS) };

/// How many times an agent gives its CPU to the threads that share it before it sleeps.
const YIELDS: u32 = 2;
/// A yield longer than this, in nanoseconds, means that an unrelated thread ran.
const LONG_YIELD_NS: u64 = 200_000;
/// How many times a worker sleeps before it yields again after such a long yield.
const SLEEPS: u32 = 100;
/// Time between two looks of a worker that cannot sleep on all its doorbells.
const SAMPLE: Duration = Duration::from_millis(1);

/// Interval between the looks of a sleeper that no peer has rung for: no ring reaches a doorbell
/// that was cut off with its file.
pub(super) const ROUND: Duration = Duration::from_secs(1);

/// The waits of a worker's fibers in segments, and its doorbells, one in each segment in which
/// fibers have waited here.
pub(crate) struct SegmentWaits {
    /// The conditions that are waited for. Peers ring for them, but only for workers that sleep.
    watches: Watches,
    /// The doorbells. Accessed only by the owner.
    bells: UnsafeCell<Vec<Bell>>,
    /// The doorbell that the worker sleeps on; null: its own token as well, among several words.
    /// Written by the owner before its inbox says that it is parked; read by the thread that has
    /// taken that mark.
    slept_on: AtomicPtr<Doorbell>,
    /// How many times to sleep before the CPU is given away again instead. Only the owner.
    sleeps: Cell<u32>,
}

// SAFETY: each field says which thread may touch it.
unsafe impl Send for SegmentWaits {}
// SAFETY: as for Send.
unsafe impl Sync for SegmentWaits {}

/// The doorbell of the calling thread in a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnBell {
    pub(super) number: usize,
    /// The CPU that the thread is bound to.
    pub(super) cpu: Option<u32>,
}

impl OwnBell {
    #[inline]
    pub(super) fn of(bell: &Bell) -> Self {
        OwnBell { number: bell.number(), cpu: bell.doorbell().cpu() }
    }
}

impl SegmentWaits {
    /// Returns the waits of `worker`, the caller's.
    #[inline]
    pub(super) fn of(worker: &Worker) -> &Self {
        worker.sources.get_or_add(&KEY, Self::new)
    }

    fn new() -> Self {
        SegmentWaits {
            watches: Watches::new(),
            bells: UnsafeCell::new(Vec::new()),
            slept_on: AtomicPtr::new(ptr::null_mut()),
            sleeps: Cell::new(0),
        }
    }

    /// # Safety
    ///
    /// The owner calls, and uses the result before it calls anything else of this type.
    #[expect(clippy::mut_from_ref, reason = "the owner's alone")]
    unsafe fn bells(&self) -> &mut Vec<Bell> {
        // SAFETY: passed on to the caller.
        unsafe { &mut *self.bells.get() }
    }

    /// Returns the doorbell of `worker`, the caller's, in `segment`; `None` if there is none left
    /// there.
    #[inline]
    pub(super) fn bell_in(&self, worker: &Worker, segment: &Segment) -> Option<OwnBell> {
        // SAFETY: the owner calls.
        let bells = unsafe { self.bells() };
        let bell = bells.iter().find(|bell| bell.segment().is(segment));
        bell.map(OwnBell::of).or_else(|| self.new_bell_in(worker, segment))
    }

    #[cold]
    fn new_bell_in(&self, worker: &Worker, segment: &Segment) -> Option<OwnBell> {
        assert!(
            worker.runtime().scope() == Scope::Private,
            "daiko: a segment is attached to by one process; its objects are not for fibers that change process"
        );
        let bell = new_bell(segment)?;
        let own = OwnBell::of(&bell);
        // SAFETY: the owner calls.
        unsafe { self.bells() }.push(bell);
        Some(own)
    }

    /// Returns the conditions that are waited for.
    pub(super) fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Waits until agents of this runtime see what `probe` looks for; returns false if the deadline
    /// passes before. `fiber`, the caller, is about to suspend on the worker that owns this.
    pub(super) fn wait(
        &self,
        call: InCall<'_>,
        fiber: &ControlBlock,
        probe: &dyn Probe,
        notice: Notice,
        target: WaitTarget,
        deadline: Deadline,
    ) -> bool {
        let entry = WatchEntry::probing(probe, notice, Watcher::of(fiber));
        // SAFETY: the entry is new, and its probe is borrowed.
        unsafe { self.watches.wait(call, fiber, &entry, || None, target, deadline) }.is_some()
    }

    /// Gives the CPU to the threads that share it, while nothing else could run on `worker`, until
    /// `come`; returns true if it has. This costs less than to sleep and be woken: neither side
    /// needs another system call.
    ///
    /// An unrelated thread on this CPU may keep it for a time slice. After that has happened, the
    /// worker sleeps for a while instead, as a woken thread has to wait less. Only the owner.
    pub(super) fn yields_until(&self, worker: &Worker, come: impl Fn() -> bool) -> bool {
        if let Some(left) = self.sleeps.get().checked_sub(1) {
            self.sleeps.set(left);
            return false;
        }
        let begun = clock::monotonic_ns();
        let yields = || {
            std::thread::yield_now();
            come()
        };
        let has_come = (0..YIELDS).any(|_| !worker.has_other_work() && yields());
        if clock::monotonic_ns() - begun > LONG_YIELD_NS {
            self.sleeps.set(SLEEPS);
        }
        has_come
    }

    /// Returns the peer processes that are awake in the segments that are waited for here. Only the
    /// owner.
    pub(super) fn peers(&self) -> Company {
        // SAFETY: the owner calls.
        let bells = unsafe { self.bells() }.iter();
        bells.map(|bell| bell.company(bell.doorbell().cpu())).fold(Company::default(), Company::and)
    }

    fn for_each_seat(&self, mut each: impl FnMut(&Bell, u32)) {
        // SAFETY: the owner calls.
        for bell in unsafe { self.bells() } {
            if let Some(cpu) = bell.doorbell().cpu() {
                each(bell, cpu);
            }
        }
    }
}

impl Source for SegmentWaits {
    fn poll(&self, by: &Worker, round: Round) -> bool {
        self.watches.poll(by, round)
    }

    fn peek(&self, by: &Worker) -> bool {
        self.watches.any_doorbell() && self.watches.poll(by, Round::Idle)
    }

    fn is_polled(&self) -> bool {
        self.watches.any_polled()
    }

    /// Returns true if fibers wait: peers do not ring for a worker that is awake.
    fn is_awaited(&self) -> bool {
        self.watches.any_polled() || self.watches.any_doorbell()
    }

    fn is_pending(&self, by: &Worker, _: &LastLook) -> bool {
        self.watches.any_doorbell() && self.watches.scan_all(InCall::agent(by))
    }

    fn may_be_polled_elsewhere(&self) -> bool {
        true
    }

    fn company(&self) -> Company {
        if self.watches.any_doorbell() { self.peers() } else { Company::default() }
    }

    /// Sits down to spin on this CPU, where the worker is bound to one.
    fn take_seat(&self) {
        self.for_each_seat(|bell, cpu| bell.seat(cpu).take(bell.number()));
    }

    fn has_seat(&self) -> bool {
        let mut all = true;
        self.for_each_seat(|bell, cpu| all &= bell.seat(cpu).is_of(bell.number()));
        all
    }

    /// Says in all segments that this worker is about to sleep, and on which word it will.
    fn park(&self, for_good: bool) -> Bed {
        if for_good {
            // SAFETY: the owner calls.
            unsafe { self.bells() }.retain(|bell| bell.segment().is_in_use());
        }
        // SAFETY: the owner calls.
        let bells = unsafe { self.bells() };
        if !self.watches.any_doorbell() {
            bells.iter().for_each(|bell| bell.doorbell().rest());
            return Bed::Token;
        }
        bells.iter().for_each(|bell| bell.doorbell().park());
        let slept_on = match &bells[..] {
            [one] => ptr::from_ref(one.doorbell()).cast_mut(),
            _ => ptr::null_mut(),
        };
        // Relaxed: published by the mark in the inbox.
        self.slept_on.store(slept_on, Ordering::Relaxed);
        Bed::Own { sampled: SAMPLE }
    }

    /// Sleeps until the worker is unparked, a peer rings, or it is time to look.
    fn sleep(&self, _: &Worker, token: &AtomicU32, due: Deadline) {
        // SAFETY: the owner calls.
        let bells = unsafe { self.bells() };
        let due = due.min(Deadline::after(ROUND));
        if let [one] = &bells[..] {
            if one.doorbell().is_parked() {
                let word = one.doorbell().word();
                let _ = futex::wait(word, Doorbell::PARKED, due.ns(), Scope::Shared);
            }
            return;
        }
        let words =
            bells.iter().map(|bell| (bell.doorbell().word(), Doorbell::PARKED, Scope::Shared));
        let words: Vec<_> =
            words.chain([(token, 0, Scope::Private)]).take(futex::MOST_WORDS).collect();
        if words.len() > bells.len() && futex::wait_any(&words, due.ns()).is_some() {
            return;
        }
        // The kernel does not wait for as many words: the changes are sampled instead.
        let due = due.min(Deadline::after(SAMPLE));
        let _ = futex::wait(token, 0, due.ns(), Scope::Private);
    }

    fn ring(&self) -> WakeBy {
        // SAFETY: a worker that sleeps on a doorbell keeps it until it has found its token, which
        // is stored after this.
        let Some(bell) = (unsafe { self.slept_on.load(Ordering::Relaxed).as_ref() }) else {
            return WakeBy::Token;
        };
        let _ = bell.ring(None);
        WakeBy::Word(bell.word())
    }

    fn unpark(&self) {
        self.slept_on.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the owner calls.
        unsafe { self.bells() }.iter().for_each(|bell| bell.doorbell().unpark());
    }

    /// Gives all doorbells back, as the worker ends.
    fn leave(&self) {
        // SAFETY: the owner calls.
        unsafe { self.bells() }.clear();
    }
}

/// Returns a doorbell for the calling thread; `None` if there is none left.
pub(super) fn new_bell(segment: &Segment) -> Option<Bell> {
    let bell = segment.doorbell().ok()?;
    bell.doorbell().set_cpu(bound_to());
    Some(bell)
}

/// Returns the one CPU that the calling thread may run on.
fn bound_to() -> Option<u32> {
    let allowed = cpu::allowed().ok()?;
    let mut cpus = allowed.iter();
    cpus.next().filter(|_| cpus.next().is_none()).map(|cpu| cpu as u32)
}
