//! The operations of a select, and the wait for the first of them.

use std::cell::Cell;
use std::time::Duration;

use daiko_core::claim::Claim;
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;

use super::random::shuffle;
use crate::caller;
use daiko_rt::Deadline;
use daiko_rt::call::{self, Call, InCall, Item};
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::wait::{Ended, Wait, Waiter};

/// How long a select waits.
#[doc(hidden)]
pub enum Patience {
    None,
    For(Duration),
    Endless,
}

/// An operation that a select borrows exclusively. No other select can queue it meanwhile, and no
/// select can queue it twice.
#[doc(hidden)]
pub struct Borrowed<'s>(&'s mut (dyn Case + 's));

impl<'s> Borrowed<'s> {
    pub(crate) fn of(case: &'s mut (dyn Case + 's)) -> Self {
        Borrowed(case)
    }
}

/// How far an attempt looks.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// At announced changes: one that comes later ends the wait.
    Announced,
    /// At all: the select does not wait afterwards.
    Last,
}

/// One operation of a select.
pub(crate) trait Case {
    /// Performs the operation if that is possible at once; returns true if it is done.
    fn attempt(&self, call: InCall<'_>, look: Look) -> bool;

    /// Begins a wait of `waiter`. Returns the time at which the operation is possible without a
    /// wake, and the kind of the wait for reports of deadlocks.
    ///
    /// # Panics
    ///
    /// If that waiter may not wait for it.
    fn begin(&self, _waiter: &Waiter) -> (Deadline, WaitKind) {
        (Deadline::NEVER, WaitKind::Select)
    }

    /// Queues it, under `waiter` and as `outcome` of `claim`; returns false if it is possible now.
    ///
    /// # Safety
    ///
    /// Both the case and the claim stay in place until [`leave`](Self::leave), and the case is not
    /// queued again before.
    unsafe fn enqueue(
        &self,
        call: InCall<'_>,
        waiter: WaiterId,
        claim: &Claim,
        outcome: u16,
    ) -> bool;

    /// Takes it out of its queue, if it is queued. Only once the claim is closed and the wake of
    /// the claimant has come: `is_claimed` if that was this case.
    fn leave(&self, call: InCall<'_>, waiter: &Waiter, is_claimed: bool);

    /// Records that the select was claimed with this case; called after [`leave`](Self::leave).
    /// Returns true if the claim has completed the operation. Otherwise the case is first in line
    /// from now on, as another thread may be faster.
    fn note_claim(&self) -> bool;

    /// Passes on an unused wake that the case was claimed with.
    #[must_use]
    fn give_way(&self, call: InCall<'_>) -> bool;

    /// Returns the item that the caller holds if this case was done, for the robust list.
    fn held(&self) -> Option<Item> {
        None
    }

    /// Returns the key by which selects order their cases. As all selects queue in this order, one
    /// of two selects that wait for each other finds the other.
    fn order(&self) -> usize;
}

/// A wait for the first of several cases.
struct Selecting<'s, 'c> {
    call: InCall<'s>,
    waiter: &'s Waiter,
    cases: &'s [Borrowed<'c>],
    claim: &'s Claim,
    /// The outcome that it was claimed with.
    outcome: &'s Cell<Option<u16>>,
    kind: WaitKind,
}

impl Selecting<'_, '_> {
    /// Queues all cases; returns false if one is possible now.
    fn enqueue(&self) -> bool {
        let (call, waiter) = (self.call, self.waiter.id());
        let mut cases = self.cases.iter().enumerate();
        // SAFETY: both stay in place while `self` lives, and its drop takes all cases out. A case
        // is queued once, as it is borrowed exclusively.
        cases.all(|(index, case)| unsafe { case.0.enqueue(call, waiter, self.claim, index as u16) })
    }

    fn close(&self) -> Option<u16> {
        let outcome = self.claim.close();
        if outcome.is_some() {
            self.outcome.set(outcome);
        }
        self.outcome.get()
    }

    /// Takes all cases out of their queues, once the claimant has woken the waiter.
    fn leave_all(&self) {
        for (index, case) in self.cases.iter().enumerate() {
            let is_claimed =
                self.outcome.get().is_some_and(|outcome| usize::from(outcome) == index);
            case.0.leave(self.call, self.waiter, is_claimed);
        }
    }
}

impl Wait for Selecting<'_, '_> {
    fn leave(&self, _: InCall<'_>) -> Unlinked {
        if self.close().is_some() {
            return Unlinked::AlreadyGone;
        }
        // Here, and not in the drop, as a cancelled fiber unwinds there.
        self.leave_all();
        Unlinked::Mine
    }

    fn note(&self) -> u8 {
        0
    }

    fn give_way(&self, call: InCall<'_>, _: u8) -> bool {
        let outcome = self.close();
        self.leave_all();
        outcome.is_none_or(|index| self.cases[usize::from(index)].0.give_way(call))
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::of(self.kind)
    }
}

impl Drop for Selecting<'_, '_> {
    fn drop(&mut self) {
        self.leave_all();
    }
}

/// Performs one of the cases, or none if the time is over.
///
/// ```
/// use daiko::select::{Patience, select};
/// use daiko::sync::channel;
///
/// let (_sender, receiver) = channel::bounded::<u64>(1);
/// let [mut one, mut other] = [receiver.select_recv(), receiver.select_recv()];
/// select([one.borrow_case(), other.borrow_case()], Patience::None);
/// assert!(one.result().is_none() && other.result().is_none());
/// ```
///
/// # Misuse that does not compile
///
/// One case twice, as the second node would overwrite the first one in its channel's queue:
///
/// ```compile_fail,E0499
/// use daiko::select::{Patience, select};
/// use daiko::sync::channel;
///
/// let (_sender, receiver) = channel::bounded::<u64>(1);
/// let mut case = receiver.select_recv();
/// select([case.borrow_case(), case.borrow_case()], Patience::None);
/// ```
///
/// ```compile_fail,E0308
/// use daiko::select::{Patience, select};
/// use daiko::sync::channel;
///
/// let (_sender, receiver) = channel::bounded::<u64>(1);
/// let case = receiver.select_recv();
/// select(&mut [&case, &case], Patience::None);
/// ```
///
/// One case in the selects of several fibers:
///
/// ```compile_fail,E0596
/// use daiko::select::{Patience, select};
/// use daiko::sync::channel;
/// use std::rc::Rc;
///
/// let (_sender, receiver) = channel::bounded::<u64>(1);
/// let case = Rc::new(receiver.select_recv());
/// select([case.borrow_case()], Patience::None);
/// ```
#[doc(hidden)]
#[inline]
pub fn select<const N: usize>(mut cases: [Borrowed<'_>; N], patience: Patience) {
    const { assert!(N > 0 && N <= 1 << u16::BITS, "a case is known by an outcome of a claim") };
    select_among(&mut cases, patience);
}

fn select_among(cases: &mut [Borrowed<'_>], patience: Patience) {
    let call = Call::enter();
    select_in(call.token(), cases, patience);
    if call::notes_calls() {
        cases.iter().filter_map(|case| case.0.held()).for_each(|item| call.add(item));
    }
}

fn select_in(call: InCall<'_>, cases: &mut [Borrowed<'_>], patience: Patience) {
    let first = if matches!(patience, Patience::None) { Look::Last } else { Look::Announced };
    if attempt(call, cases, first) {
        return;
    }
    let deadline = match patience {
        Patience::None => return,
        Patience::For(timeout) => Deadline::after(timeout),
        Patience::Endless => Deadline::NEVER,
    };
    let waiter = caller::waiter("select!");
    let (mut due, mut kind) = (deadline, WaitKind::Select);
    for case in &*cases {
        let (possible, kind_of_case) = case.0.begin(&waiter);
        due = due.min(possible);
        if kind_of_case != WaitKind::Select {
            kind = kind_of_case;
        }
    }
    loop {
        cases.sort_unstable_by_key(|case| case.0.order());
        let look = match wait_once(call, cases, &waiter, kind, due) {
            Waited::Done => return,
            Waited::TimedOut => Look::Last,
            Waited::Possible => Look::Announced,
        };
        if attempt(call, cases, look) || look == Look::Last && deadline.is_over() {
            return;
        }
    }
}

/// Performs the first case that is possible at once, in a random order, so that each of those that
/// are possible is performed as often as the others.
fn attempt(call: InCall<'_>, cases: &mut [Borrowed<'_>], look: Look) -> bool {
    shuffle(cases);
    cases.iter().any(|case| case.0.attempt(call, look))
}

/// The end of a wait for several cases.
enum Waited {
    /// A case is done.
    Done,
    /// A case may be possible now.
    Possible,
    /// The time is over.
    TimedOut,
}

/// Waits until a case is done or may be possible, or the time is over.
fn wait_once(
    call: InCall<'_>,
    cases: &[Borrowed<'_>],
    waiter: &Waiter,
    kind: WaitKind,
    due: Deadline,
) -> Waited {
    let (claim, outcome) = (Claim::new(), Cell::new(None));
    let selecting = Selecting { call, waiter, cases, claim: &claim, outcome: &outcome, kind };
    let queued = selecting.enqueue();
    let ended = match queued {
        true => Some(waiter.wait_for(call, &selecting, due)),
        false => None,
    };
    let claimed = selecting.close();
    if !queued && claimed.is_some() {
        waiter.absorb_wake(call);
    }
    drop(selecting);
    match claimed {
        Some(index) if finish(call, &*cases[usize::from(index)].0) => Waited::Done,
        None if ended == Some(Ended::TimedOut) => Waited::TimedOut,
        _ => Waited::Possible,
    }
}

/// Returns true if the select's claim with this case completed it. If not, another thread took the
/// message or room of the claim. The next message or room claims another waiter, so the wake is
/// used up.
fn finish(call: InCall<'_>, case: &dyn Case) -> bool {
    case.note_claim() || case.attempt(call, Look::Announced)
}
