//! Waits for changes by other processes.

use std::cell::RefCell;
use std::time::Duration;

use crate::caller;
use crate::{Bell, Segment};
use daiko_core::doorbell::{Doorbell, Listeners};
use daiko_core::robust::Holder;
use daiko_core::watch::{Notice, Probe};
use daiko_sys::futex;
use daiko_sys::kernel_local;
use daiko_sys::policy;

use super::waits::{OwnBell, ROUND, SegmentWaits, new_bell};
use daiko_rt::Deadline;
use daiko_rt::call::{Call, InCall};
use daiko_rt::deadlock::{self, WaitKind, WaitTarget};
use daiko_rt::fiber::ControlBlock;
use daiko_rt::wait::Waiter;
use daiko_rt::worker::Worker;

/// Looks that are taken in place, while the peers that could end the wait run: together about as
/// long as a futex wake across CPUs takes.
const LOOKS: u32 = 200;
/// Looks for the answer of a peer that is known to run: longer than a message takes there and
/// back.
pub(super) const SOON: u32 = 50;
/// Interval between the looks of a thread that has no doorbell left in the segment.
const SAMPLE: Duration = Duration::from_millis(1);

/// A condition that is waited for.
struct Look<F>(F);

impl<F: Fn() -> bool + Sync> Probe for Look<F> {
    fn sample(&self) -> Option<u64> {
        self.0().then_some(0)
    }
}

/// How the process that changes the condition notifies the waiter.
#[derive(Clone, Copy)]
pub(super) enum NotifiedBy<'s> {
    /// The notifier rings for the listeners there.
    At(&'s Listeners),
    /// The notifier rings this doorbell, which was the caller's [`own_bell`] when the caller
    /// announced it; `None`: it rings for no waiter.
    By(Option<usize>),
}

impl NotifiedBy<'_> {
    /// Returns the target of the wait, for debuggers: another process sees the listeners, too.
    fn target(self) -> WaitTarget {
        match self {
            NotifiedBy::At(listeners) => WaitTarget::new(WaitKind::Shared, listeners),
            NotifiedBy::By(_) => WaitTarget::of(WaitKind::Shared),
        }
    }

    /// Returns true if a sleeper on `bell` is rung for from now on.
    pub(super) fn reaches(self, bell: usize) -> bool {
        match self {
            NotifiedBy::At(listeners) => {
                listeners.listen(bell);
                true
            }
            // A migratable fiber may have gone on elsewhere since, and have another doorbell
            // there.
            NotifiedBy::By(known) => known == Some(bell),
        }
    }
}

/// Waits in `segment` until `holds`, or its file is found to be cut short; returns false if the
/// deadline has passed before. A waiter that is not notified looks by itself, now and then.
///
/// `holds` looks at memory alone, shortly: agents call it. `operation` names the caller's function
/// in messages.
#[inline(never)]
pub(super) fn until(
    segment: &Segment,
    notified_by: NotifiedBy<'_>,
    operation: &str,
    deadline: Deadline,
    holds: impl Fn() -> bool + Sync,
) -> bool {
    let call = Call::enter();
    // The look at a word that is gone says so.
    let holds = || holds() || segment.is_truncated();
    if holds() {
        return true;
    }
    match caller::waiter(operation) {
        Waiter::Fiber(fiber) => {
            as_fiber(call.token(), fiber, segment, notified_by, deadline, holds)
        }
        Waiter::Thread(_) => {
            let wait = || as_thread(segment, notified_by, deadline, holds);
            deadlock::thread_waits_for(|| notified_by.target(), wait)
        }
    }
}

/// Place of a wait.
#[derive(Clone, Copy)]
pub(super) struct At<'s> {
    pub(super) segment: &'s Segment,
    /// Rung by the process that makes the condition true.
    pub(super) listeners: &'s Listeners,
    /// Name of the caller's function in messages.
    pub(super) operation: &'s str,
}

/// The state of a segment's processes before an attempt, for a change that any process may bring
/// about, and die before it rings: a further attempt is due whenever a process has come or gone.
#[derive(Clone, Copy)]
pub(crate) struct Membership(u64);

impl Membership {
    /// Reads it, before the attached processes are watched, and so before the attempt.
    pub(crate) fn before_attempt(segment: &Segment) -> Self {
        let before = Membership(segment.membership_epoch());
        segment.watch_all();
        before
    }

    pub(crate) fn has_changed(self, segment: &Segment) -> bool {
        segment.membership_epoch() != self.0
    }
}

impl At<'_> {
    /// Attempts until the attempt succeeds, or the deadline has passed: then returns the last
    /// failure. In between waits until `has_changed` from the state that the attempt has seen.
    ///
    /// For a condition that any process may bring about, and die before it rings: an attempt is
    /// also made whenever a process has come or gone. A peer cannot prolong it beyond the
    /// deadline.
    pub(super) fn any_process<R, E: Sync>(
        self,
        deadline: Deadline,
        mut attempt: impl FnMut() -> Result<R, E>,
        has_changed: impl Fn(&E) -> bool + Sync,
    ) -> Result<R, E> {
        loop {
            let membership = Membership::before_attempt(self.segment);
            let seen = match attempt() {
                Err(seen) => seen,
                done => return done,
            };
            if !self.change_since(membership, deadline, || has_changed(&seen)) {
                return attempt();
            }
        }
    }

    /// Waits until `has_changed`, or a process has come or gone since `membership` was read;
    /// returns false if the deadline has passed.
    pub(super) fn change_since(
        self,
        membership: Membership,
        deadline: Deadline,
        has_changed: impl Fn() -> bool + Sync,
    ) -> bool {
        let Self { segment, listeners, operation } = self;
        let due = || has_changed() || membership.has_changed(segment);
        until(segment, NotifiedBy::At(listeners), operation, deadline, due) && !deadline.is_over()
    }

    /// Waits until `has_changed`, which is up to `holder`, or that is gone; returns false if the
    /// deadline has passed before.
    pub(super) fn one(
        self,
        holder: Holder,
        deadline: Deadline,
        has_changed: impl Fn() -> bool + Sync,
    ) -> bool {
        let Self { segment, listeners, operation } = self;
        segment.watch(holder);
        let due = || has_changed() || segment.is_gone(holder);
        until(segment, NotifiedBy::At(listeners), operation, deadline, due) && !deadline.is_over()
    }

    /// Rings for all waiters there, after a change by a read-modify-write.
    #[inline]
    pub(super) fn ring(self) {
        self.segment.ring(self.listeners, None);
    }
}

fn as_fiber(
    call: InCall<'_>,
    fiber: &ControlBlock,
    segment: &Segment,
    notified_by: NotifiedBy<'_>,
    deadline: Deadline,
    holds: impl Fn() -> bool + Sync,
) -> bool {
    let Some(worker) = caller::current() else { unreachable!("a fiber runs on a worker") };
    let waits = SegmentWaits::of(worker);
    let bell = waits.bell_in(worker, segment).filter(|bell| notified_by.reaches(bell.number));
    let company = waits.peers();
    if company.elsewhere && looks(LOOKS, || holds().then_some(())).is_some()
        || !company.elsewhere && company.here && waits.yields_until(worker, &holds)
    {
        return true;
    }
    let notice = if bell.is_some() { Notice::Doorbell } else { Notice::Polled };
    waits.wait(call, fiber, &Look(holds), notice, notified_by.target(), deadline)
}

fn as_thread(
    segment: &Segment,
    notified_by: NotifiedBy<'_>,
    deadline: Deadline,
    holds: impl Fn() -> bool,
) -> bool {
    with_thread_bell(segment, |bell| {
        let bell = bell.filter(|bell| notified_by.reaches(bell.number()));
        let company = bell.map(|bell| bell.company(bell.doorbell().cpu()));
        if company.is_some_and(|company| company.elsewhere)
            && looks(LOOKS, || holds().then_some(())).is_some()
        {
            return true;
        }
        loop {
            let is_last = deadline.is_over();
            sleep(bell, deadline, &holds);
            if holds() {
                return true;
            }
            if is_last {
                return false;
            }
        }
    })
}

/// Sleeps once, unless `holds`.
fn sleep(bell: Option<&Bell>, deadline: Deadline, holds: impl Fn() -> bool) {
    let Some(bell) = bell.map(Bell::doorbell) else {
        return std::thread::sleep(deadline.left().map_or(SAMPLE, |left| left.min(SAMPLE)));
    };
    bell.park();
    if !holds() {
        let due = deadline.min(Deadline::after(ROUND)).ns();
        let _ = futex::wait(bell.word(), Doorbell::PARKED, due, futex::Scope::Shared);
    }
    bell.unpark();
}

/// Looks several times, a little apart, while nothing else could run on the caller's worker;
/// returns the result.
#[inline]
pub(super) fn looks<R>(most: u32, mut look: impl FnMut() -> Option<R>) -> Option<R> {
    let worker = caller::current();
    for _ in 0..most {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if worker.is_some_and(Worker::has_other_work) {
            break;
        }
        crate::atomic::spin_loop();
    }
    None
}

/// Lets other fibers run before the caller looks anew: a peer may change the word without end.
#[cold]
pub(super) fn give_way() {
    match caller::unasked() {
        Waiter::Fiber(_) => daiko_rt::yield_now(),
        Waiter::Thread(_) => policy::give_way(),
    }
}

/// Returns the caller's doorbell in `segment`, which is rung for its waits; `None`: none is left.
#[inline]
pub(super) fn own_bell(segment: &Segment) -> Option<OwnBell> {
    match caller::current() {
        Some(worker) => SegmentWaits::of(worker).bell_in(worker, segment),
        None => with_thread_bell(segment, |bell| bell.map(OwnBell::of)),
    }
}

kernel_local! {
    /// Doorbells of a thread that is no worker.
    static BELLS: RefCell<Vec<Bell>> = const { RefCell::new(Vec::new()) };
}

fn with_thread_bell<R>(segment: &Segment, f: impl FnOnce(Option<&Bell>) -> R) -> R {
    BELLS.with(|bells| {
        let mut bells = bells.borrow_mut();
        bells.retain(|bell| bell.segment().is_in_use());
        if !bells.iter().any(|bell| bell.segment().is(segment)) {
            bells.extend(new_bell(segment));
        }
        f(bells.iter().find(|bell| bell.segment().is(segment)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_registered_with_another_bell_looks_by_itself() {
        assert!(NotifiedBy::By(Some(3)).reaches(3));
        assert!(!NotifiedBy::By(Some(3)).reaches(4) && !NotifiedBy::By(None).reaches(0));
        let listeners = Listeners::new();
        assert!(NotifiedBy::At(&listeners).reaches(4));
    }
}
