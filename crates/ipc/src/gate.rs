//! Gates: the queues of this process in front of an object of a segment.
//!
//! One fiber or thread of the process at a time passes a gate, and goes on to wait in the segment;
//! the rest wait here, in FIFO order. A gate is not poisoned: the words in the segment record who
//! died or panicked. With workers that are processes it is in the robust list of its holder.

mod shared;

use crate::caller;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::mutex::{Acquire, Arrival, RawMutex, note};
use daiko_core::wait::Node;
use daiko_rt::Deadline;
use daiko_rt::call::{Call, InCall, Item, ItemKind};
use daiko_rt::deadlock::{self, WaitKind, WaitTarget};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Ended, Object, Waiter};
use daiko_sys::clock;

pub(crate) use self::shared::{SharedGate, SharedPass};

/// How long after a waiter first arrives late the gate is handed over to it, whether or not the
/// processors have other work.
const LATE_NS: u64 = 500_000;

/// A gate for one fiber or thread at a time, and a value of its holder.
pub(crate) struct Gate<T> {
    raw: RawMutex<WaiterId>,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one holder at a time, and any owner of the gate may drop it.
unsafe impl<T: Send> Send for Gate<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Gate<T> {}

/// The right to use the value of a [`Gate`]; dropping it lets the next waiter in.
#[must_use = "a gate is open again where this is dropped"]
#[clippy::has_significant_drop]
pub(crate) struct Pass<'g, T> {
    gate: &'g Gate<T>,
    is_tracked: bool,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared reference to a pass gives only a shared reference to the value.
unsafe impl<T: Sync> Sync for Pass<'_, T> {}

impl<T> Gate<T> {
    pub(crate) const fn new(value: T) -> Self {
        Gate { raw: RawMutex::new(), value: UnsafeCell::new(value) }
    }

    /// Waits for the gate; `None`: the deadline has passed.
    ///
    /// # Panics
    ///
    /// If it would have to wait where that is not allowed, or without a deadline for itself, where
    /// locks are tracked.
    #[track_caller]
    pub(crate) fn pass_until(&self, deadline: Deadline) -> Option<Pass<'_, T>> {
        let call = Call::enter();
        let taken = self.raw.try_acquire() || self.wait_until(call.token(), deadline);
        taken.then(|| self.taken(&call))
    }

    /// Passes the gate if it is open.
    #[track_caller]
    pub(crate) fn try_pass(&self) -> Option<Pass<'_, T>> {
        let call = Call::enter();
        self.raw.try_acquire().then(|| self.taken(&call))
    }

    #[track_caller]
    fn taken(&self, call: &Call) -> Pass<'_, T> {
        call.add(self.item());
        Pass { gate: self, is_tracked: deadlock::taken(self.address()), not_send: PhantomData }
    }

    /// Waits for the gate; returns false if the deadline passed.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn wait_until(&self, call: InCall<'_>, deadline: Deadline) -> bool {
        if wait::others_run() && self.raw.try_acquire_soon() {
            return true;
        }
        if deadline == Deadline::NEVER {
            deadlock::assert_not_held(self.address(), "a Mutex");
        }
        let waiter = caller::waiter("Mutex::lock");
        self.wait_with(call, &waiter, &Node::new(waiter.id()), deadline)
    }

    fn wait_with(
        &self,
        call: InCall<'_>,
        waiter: &Waiter,
        node: &Node<WaiterId>,
        deadline: Deadline,
    ) -> bool {
        let (mut arrival, mut since) = (Arrival::New, None);
        // SAFETY: the node is in no queue, and stays in place until it has left or is claimed.
        while unsafe { self.raw.acquire(ThisThread::of(call), NonNull::from(node), arrival) }
            == Acquire::Queued
        {
            if arrival != Arrival::New {
                since.get_or_insert_with(clock::monotonic_ns);
            }
            match waiter.wait(call, node, &MutexQueue(&self.raw), deadline) {
                Ended::TimedOut => return false,
                Ended::Claimed(note::HANDED_OVER) => return true,
                Ended::Claimed(_) => {}
            }
            let late = since.is_some_and(|since| clock::monotonic_ns() - since >= LATE_NS);
            arrival = if late { Arrival::Late } else { Arrival::Woken };
        }
        true
    }

    /// The identity of the gate where locks are tracked.
    fn address(&self) -> usize {
        ptr::from_ref(&self.raw).addr()
    }

    /// The item of its holder's robust list.
    #[inline]
    fn item(&self) -> Item {
        Item::new(&self.raw, ptr::null(), &RECOVERY)
    }
}

/// Opens the gate in place of its holder, which is lost.
static RECOVERY: ItemKind = ItemKind {
    recover: |call, raw, _| {
        // SAFETY: the items of this kind are valid gates.
        let raw = unsafe { raw.cast::<RawMutex<WaiterId>>().as_ref() };
        open(call, raw);
    },
};

#[inline]
fn open(call: InCall<'_>, raw: &RawMutex<WaiterId>) {
    if !raw.release_fast() {
        wait::wake(call, raw.release(ThisThread::of(call)));
    }
}

/// The queue of a gate, as a waiter sees it.
struct MutexQueue<'g>(&'g RawMutex<WaiterId>);

impl Object<WaiterId> for MutexQueue<'_> {
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<WaiterId>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.0.leave(ThisThread::of(call), node) }
    }

    fn give_way(&self, call: InCall<'_>, note: u8) -> bool {
        wait::wake(call, self.0.give_way(ThisThread::of(call), note));
        true
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::new(WaitKind::Mutex, self.0)
    }
}

impl<T> Deref for Pass<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the holder of the pass has the gate.
        unsafe { &*self.gate.value.get() }
    }
}

impl<T> DerefMut for Pass<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the holder of the pass has the gate, and the pass is borrowed exclusively.
        unsafe { &mut *self.gate.value.get() }
    }
}

impl<T> Drop for Pass<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let call = Call::enter();
        call.remove(self.gate.item());
        if self.is_tracked {
            deadlock::freed(self.gate.address());
        }
        open(call.token(), &self.gate.raw);
    }
}
