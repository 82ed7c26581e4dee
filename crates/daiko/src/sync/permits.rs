//! Waiting for permits, and serving who waits: what semaphores and read-write locks share.

use std::ptr::{self, NonNull};

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::semaphore::{Overflow, RawSemaphore, Request};
use daiko_core::wait::Node;

use daiko_rt::deadlock::{Kind, Target};
use daiko_rt::process::{self, Item, ItemKind, estate};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Deadline, Ended, Object, Waiter};

type Raw = RawSemaphore<WaiterId>;

/// The item of a robust list for `count` permits, unless the permits are those of a writer.
#[inline]
pub(super) fn item(raw: &Raw, count: u32) -> Item {
    Item::new(raw, ptr::without_provenance(count as usize), &RECOVERY)
}

/// Gives the permits back in the stead of their holder, which is lost: as many as the detail says.
static RECOVERY: ItemKind = ItemKind {
    // SAFETY: the items of this kind are valid semaphores.
    recover: |raw, count, _| release(unsafe { raw.cast::<Raw>().as_ref() }, count.addr() as u32),
};

/// Takes `count` permits, until the deadline at most, and notes that the caller has them as `item`.
/// Returns false if the deadline passed.
#[inline(never)]
pub(super) fn take_in_call(
    raw: &Raw,
    count: u32,
    what: &(Kind, &str),
    item: Item,
    deadline: impl FnOnce() -> Deadline,
) -> bool {
    estate::gains_quickly(item, || raw.try_acquire(count))
        || take_in_call_slow(raw, count, what, item, deadline())
}

#[cold]
#[inline(never)]
fn take_in_call_slow(
    raw: &Raw,
    count: u32,
    what: &(Kind, &str),
    item: Item,
    deadline: Deadline,
) -> bool {
    let call = process::call();
    let taken = raw.try_acquire(count) || acquire_slow(raw, count, what, deadline);
    if taken {
        call.gains(item);
    }
    taken
}

/// As [`take_in_call`], if they are there.
pub(super) fn try_take(raw: &Raw, count: u32, item: Item) -> bool {
    let call = process::call();
    let taken = raw.try_acquire(count);
    if taken {
        call.gains(item);
    }
    taken
}

/// Gives `count` permits back that the caller has as `item`.
#[inline]
pub(super) fn give_back(raw: &Raw, count: u32, item: Item) {
    if process::notes_calls() {
        give_back_in_call(raw, count, item);
    } else {
        release(raw, count);
    }
}

#[inline(never)]
fn give_back_in_call(raw: &Raw, count: u32, item: Item) {
    let gives = || raw.release_fast(count) == Ok(true);
    if !estate::parts_quickly(item, gives) {
        give_back_in_call_slow(raw, count, item);
    }
}

#[cold]
#[inline(never)]
fn give_back_in_call_slow(raw: &Raw, count: u32, item: Item) {
    let call = process::call();
    call.parts_with(item);
    release(raw, count);
}

/// Waits for `count` permits in the name of `what`, a call to a thing of a kind; false if the deadline passed.
#[cold]
#[inline(never)]
pub(super) fn acquire_slow(
    raw: &Raw,
    count: u32,
    &(kind, what): &(Kind, &str),
    deadline: Deadline,
) -> bool {
    let waiter = Waiter::caller(what);
    let node = Node::new(Request { waiter: waiter.id(), permits: count });
    // SAFETY: the node is new, and stays here until it has left or is claimed.
    if unsafe { raw.acquire(&ThisThread, NonNull::from(&node)) } {
        return true;
    }
    waiter.wait(&node, &Asked { raw, count, kind }, deadline) != Ended::TimedOut
}

/// Gives `count` permits back, or makes so many.
///
/// # Panics
///
/// If there would be too many, which only a semaphore's user can bring about.
#[inline]
pub(crate) fn release(raw: &Raw, count: u32) {
    process::assert_in_call();
    match raw.release_fast(count) {
        Ok(true) => {}
        Ok(false) => release_slow(raw, count),
        Err(Overflow) => overflow(),
    }
}

#[cold]
fn release_slow(raw: &Raw, count: u32) {
    match raw.release(&ThisThread, count) {
        Ok(()) => serve(raw),
        Err(Overflow) => overflow(),
    }
}

/// Wakes all who can have their permits now.
fn serve(raw: &Raw) {
    while let Some(waiter) = raw.serve(&ThisThread) {
        wait::wake(Some(waiter));
    }
}

#[cold]
fn overflow() -> ! {
    panic!("daiko: a semaphore was given more permits than Semaphore::MAX_PERMITS")
}

/// What a waiter has asked for.
struct Asked<'s> {
    raw: &'s Raw,
    count: u32,
    kind: Kind,
}

impl Object<Request<WaiterId>> for Asked<'_> {
    unsafe fn leave(&self, node: NonNull<Node<Request<WaiterId>>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        let unlinked = unsafe { self.raw.leave(&ThisThread, node) };
        serve(self.raw);
        unlinked
    }

    fn give_way(&self, _: u8) -> bool {
        release(self.raw, self.count);
        true
    }

    fn target(&self) -> Target {
        Target::new(self.kind, self.raw)
    }
}
