//! Acquisition and release of permits, shared by semaphores and read-write locks.

use crate::caller;
use std::ptr::{self, NonNull};

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::semaphore::{Overflow, RawSemaphore, Request};
use daiko_core::wait::Node;

use daiko_rt::Deadline;
use daiko_rt::call::{self, Call, InCall, Item, ItemKind};
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Ended, Object};

type Raw = RawSemaphore<WaiterId>;

/// The item of a robust list for `count` permits, unless the permits are those of a writer.
#[inline]
pub(super) fn item(raw: &Raw, count: u32) -> Item {
    Item::new(raw, ptr::without_provenance(count as usize), &RECOVERY)
}

/// Gives the permits back in place of their holder, which is lost; the detail is their number.
static RECOVERY: ItemKind = ItemKind {
    recover: |call, raw, count| {
        // SAFETY: the items of this kind are valid semaphores.
        let raw = unsafe { raw.cast::<Raw>().as_ref() };
        release(call, raw, count.addr() as u32);
    },
};

/// Takes `count` permits, until the deadline at most, and records that the caller holds them as
/// `item`. Returns false if the deadline passed.
#[inline(never)]
pub(super) fn take_in_call(
    raw: &Raw,
    count: u32,
    operation: &(WaitKind, &str),
    item: Item,
    deadline: impl FnOnce() -> Deadline,
) -> bool {
    // SAFETY: it is an exchange of the permits' word.
    let taken = unsafe { Call::add_quickly(item, || raw.try_acquire(count)) };
    taken || take_in_call_slow(raw, count, operation, item, deadline())
}

#[cold]
#[inline(never)]
fn take_in_call_slow(
    raw: &Raw,
    count: u32,
    operation: &(WaitKind, &str),
    item: Item,
    deadline: Deadline,
) -> bool {
    let call = Call::enter();
    let taken =
        raw.try_acquire(count) || acquire_slow(call.token(), raw, count, operation, deadline);
    if taken {
        call.add(item);
    }
    taken
}

/// Takes permits as [`take_in_call`] does, but only if they are available.
pub(super) fn try_take(raw: &Raw, count: u32, item: Item) -> bool {
    let call = Call::enter();
    let taken = raw.try_acquire(count);
    if taken {
        call.add(item);
    }
    taken
}

/// Gives back `count` permits that the caller holds as `item`.
#[inline]
pub(super) fn give_back(raw: &Raw, count: u32, item: Item) {
    if call::notes_calls() {
        give_back_in_call(raw, count, item);
    } else {
        // SAFETY: sections are not noted, as was just found; used by this call.
        release(unsafe { InCall::unnoted() }, raw, count);
    }
}

#[inline(never)]
fn give_back_in_call(raw: &Raw, count: u32, item: Item) {
    let gives = || raw.release_fast(count) == Ok(true);
    // SAFETY: it is an exchange of the permits' word.
    if !unsafe { Call::remove_quickly(item, gives) } {
        give_back_in_call_slow(raw, count, item);
    }
}

#[cold]
#[inline(never)]
fn give_back_in_call_slow(raw: &Raw, count: u32, item: Item) {
    let call = Call::enter();
    call.remove(item);
    release(call.token(), raw, count);
}

/// Waits for `count` permits on behalf of the call, given by its kind and name; returns false if
/// the deadline passed.
#[cold]
#[inline(never)]
pub(super) fn acquire_slow(
    call: InCall<'_>,
    raw: &Raw,
    count: u32,
    &(kind, operation): &(WaitKind, &str),
    deadline: Deadline,
) -> bool {
    let waiter = caller::waiter(operation);
    let node = Node::new(Request { waiter: waiter.id(), permits: count });
    // SAFETY: the node is new, and stays in place until it has left or is claimed.
    if unsafe { raw.acquire(ThisThread::of(call), NonNull::from(&node)) } {
        return true;
    }
    waiter.wait(call, &node, &Asked { raw, count, kind }, deadline) != Ended::TimedOut
}

/// Gives `count` permits back, or adds them.
///
/// # Panics
///
/// If there would be too many, which only the user of a semaphore can bring about.
#[inline]
pub(crate) fn release(call: InCall<'_>, raw: &Raw, count: u32) {
    match raw.release_fast(count) {
        Ok(true) => {}
        Ok(false) => release_slow(call, raw, count),
        Err(Overflow) => overflow(),
    }
}

#[cold]
fn release_slow(call: InCall<'_>, raw: &Raw, count: u32) {
    match raw.release(ThisThread::of(call), count) {
        Ok(()) => serve(call, raw),
        Err(Overflow) => overflow(),
    }
}

/// Wakes all waiters that can have their permits now.
pub(super) fn serve(call: InCall<'_>, raw: &Raw) {
    while let Some(request) = raw.serve(ThisThread::of(call)) {
        if !wait::hand_over(call, request.waiter)
            // A select that another object had ended before.
            && let Err(Overflow) = raw.release(ThisThread::of(call), request.permits)
        {
            overflow();
        }
    }
}

#[cold]
fn overflow() -> ! {
    panic!("daiko: a semaphore was given more permits than Semaphore::MAX_PERMITS")
}

/// The request of a waiter.
struct Asked<'s> {
    raw: &'s Raw,
    count: u32,
    kind: WaitKind,
}

impl Object<Request<WaiterId>> for Asked<'_> {
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<Request<WaiterId>>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        let unlinked = unsafe { self.raw.leave(ThisThread::of(call), node) };
        serve(call, self.raw);
        unlinked
    }

    fn give_way(&self, call: InCall<'_>, _: u8) -> bool {
        release(call, self.raw, self.count);
        true
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::new(self.kind, self.raw)
    }
}
