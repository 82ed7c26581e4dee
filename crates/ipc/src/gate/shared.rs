//! Gates for many readers or one writer.

use crate::caller;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::semaphore::{MAX_PERMITS, Overflow, RawSemaphore, Request};
use daiko_core::wait::Node;
use daiko_rt::Deadline;
use daiko_rt::call::{Call, InCall, Item, ItemKind};
use daiko_rt::deadlock::{self, WaitKind, WaitTarget};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Ended, Object};

type Raw = RawSemaphore<WaiterId>;

/// Permits of a reader, and of a writer.
const READER: u32 = 1;
const WRITER: u32 = MAX_PERMITS;

/// A gate for many readers or one writer at a time, in FIFO order.
pub(crate) struct SharedGate {
    raw: Raw,
}

/// The right of a reader or a writer; dropping it lets the next waiters in.
#[must_use = "a gate is open again where this is dropped"]
#[clippy::has_significant_drop]
pub(crate) struct SharedPass<'g> {
    gate: &'g SharedGate,
    permits: u32,
    is_tracked: bool,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared reference to a pass gives nothing.
unsafe impl Sync for SharedPass<'_> {}

impl SharedGate {
    pub(crate) const fn new() -> Self {
        SharedGate { raw: Raw::new(MAX_PERMITS) }
    }

    /// Waits until no writer has the gate or waits for it; `None`: the deadline has passed.
    ///
    /// # Panics
    ///
    /// If it would have to wait where that is not allowed.
    #[track_caller]
    pub(crate) fn read_until(&self, deadline: Deadline) -> Option<SharedPass<'_>> {
        self.pass_until(READER, "RwLock::read", deadline)
    }

    /// Waits until the gate is free; `None`: the deadline has passed.
    ///
    /// # Panics
    ///
    /// As [`read_until`](Self::read_until).
    #[track_caller]
    pub(crate) fn write_until(&self, deadline: Deadline) -> Option<SharedPass<'_>> {
        self.pass_until(WRITER, "RwLock::write", deadline)
    }

    #[track_caller]
    fn pass_until(
        &self,
        permits: u32,
        operation: &str,
        deadline: Deadline,
    ) -> Option<SharedPass<'_>> {
        let call = Call::enter();
        let taken = self.raw.try_acquire(permits)
            || self.wait_until(call.token(), permits, operation, deadline);
        taken.then(|| self.taken(permits, &call))
    }

    /// Passes the gate if no writer has it or waits for it.
    #[track_caller]
    pub(crate) fn try_read(&self) -> Option<SharedPass<'_>> {
        self.try_pass(READER)
    }

    /// Passes the gate if it is free.
    #[track_caller]
    pub(crate) fn try_write(&self) -> Option<SharedPass<'_>> {
        self.try_pass(WRITER)
    }

    #[track_caller]
    fn try_pass(&self, permits: u32) -> Option<SharedPass<'_>> {
        let call = Call::enter();
        self.raw.try_acquire(permits).then(|| self.taken(permits, &call))
    }

    #[track_caller]
    fn taken(&self, permits: u32, call: &Call) -> SharedPass<'_> {
        call.add(item(&self.raw, permits));
        let is_tracked = permits == WRITER && deadlock::taken(self.address());
        SharedPass { gate: self, permits, is_tracked, not_send: PhantomData }
    }

    /// Waits for the permits; returns false if the deadline passed.
    #[cold]
    #[inline(never)]
    fn wait_until(
        &self,
        call: InCall<'_>,
        permits: u32,
        operation: &str,
        deadline: Deadline,
    ) -> bool {
        let waiter = caller::waiter(operation);
        let node = Node::new(Request { waiter: waiter.id(), permits });
        // SAFETY: the node is new, and stays in place until it has left or is claimed.
        if unsafe { self.raw.acquire(ThisThread::of(call), NonNull::from(&node)) } {
            return true;
        }
        waiter.wait(call, &node, &SharedQueue { raw: &self.raw, permits }, deadline)
            != Ended::TimedOut
    }

    /// The identity of the gate where locks are tracked.
    fn address(&self) -> usize {
        ptr::from_ref(&self.raw).addr()
    }
}

/// The item of a holder's robust list for so many permits.
#[inline]
fn item(raw: &Raw, permits: u32) -> Item {
    Item::new(raw, ptr::without_provenance(permits as usize), &RECOVERY)
}

/// Gives the permits back in place of their holder, which is lost; the detail is their number.
static RECOVERY: ItemKind = ItemKind {
    recover: |call, raw, permits| {
        // SAFETY: the items of this kind are valid gates.
        let raw = unsafe { raw.cast::<Raw>().as_ref() };
        give_back(call, raw, permits.addr() as u32);
    },
};

#[inline]
fn give_back(call: InCall<'_>, raw: &Raw, permits: u32) {
    if let Ok(false) = raw.release_fast(permits) {
        give_back_slow(call, raw, permits);
    }
}

#[cold]
fn give_back_slow(call: InCall<'_>, raw: &Raw, permits: u32) {
    let Err(Overflow) = raw.release(ThisThread::of(call), permits) else { return serve(call, raw) };
    unreachable!("a pass gives back what it has taken");
}

/// Wakes all waiters that may pass now.
fn serve(call: InCall<'_>, raw: &Raw) {
    while let Some(request) = raw.serve(ThisThread::of(call)) {
        wait::wake(call, Some(request.waiter));
    }
}

/// The queue of a gate, as a waiter sees it.
struct SharedQueue<'g> {
    raw: &'g Raw,
    permits: u32,
}

impl Object<Request<WaiterId>> for SharedQueue<'_> {
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<Request<WaiterId>>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        let unlinked = unsafe { self.raw.leave(ThisThread::of(call), node) };
        serve(call, self.raw);
        unlinked
    }

    fn give_way(&self, call: InCall<'_>, _: u8) -> bool {
        give_back(call, self.raw, self.permits);
        true
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::new(WaitKind::RwLock, self.raw)
    }
}

impl Drop for SharedPass<'_> {
    #[inline]
    fn drop(&mut self) {
        let call = Call::enter();
        call.remove(item(&self.gate.raw, self.permits));
        if self.is_tracked {
            deadlock::freed(self.gate.address());
        }
        give_back(call.token(), &self.gate.raw, self.permits);
    }
}
