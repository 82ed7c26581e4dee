//! Waiting for permits, and serving who waits: what semaphores and read-write locks share.

use std::ptr::NonNull;

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::semaphore::{Overflow, RawSemaphore, Request};
use daiko_core::wait::Node;

use crate::deadlock::{Kind, Target};
use crate::process;
use crate::runtime::kernel::ThisThread;
use crate::wait::{self, Deadline, Ended, Object, Waiter};

type Raw = RawSemaphore<WaiterId>;

/// Takes `count` permits, waiting for them in the name of `what`, a call to a thing of a kind; false if the deadline passed.
#[inline]
pub(super) fn acquire(
    raw: &Raw,
    count: u32,
    what: &(Kind, &str),
    deadline: impl FnOnce() -> Deadline,
) -> bool {
    process::shares();
    raw.try_acquire(count) || acquire_slow(raw, count, what, deadline())
}

/// As [`acquire`], whether they are there or not.
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
pub(super) fn release(raw: &Raw, count: u32) {
    process::enters_runtime();
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
