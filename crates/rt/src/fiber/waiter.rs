//! A waiter for one event: a fiber, which suspends; another thread, which blocks; or a future,
//! which has left a waker.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use daiko_core::claim::{Redeemed, Ticket};
use daiko_core::fiber::WaiterId;
use daiko_core::notice::HeldWaker;
use daiko_sys::futex::{self, Scope, WaitEnd};
use daiko_sys::kernel_local;

use super::ControlBlock;
use crate::atomic::{AtomicU32, Ordering};
use crate::call::InCall;
use crate::deadline::Deadline;
use crate::process;
use crate::worker::{self, Worker};

/// Bit of the id: the address is that of a [`ThreadWaiter`], not of a control block.
const THREAD: usize = 1;
/// Bit of the id: the address is that of a [`Ticket`] of a waiter for several objects.
const TICKET: usize = 2;
/// Bit of the id: the address is that of a [`HeldWaker`].
const WAKER: usize = 4;
/// The bits that tell the kinds of waiters apart; none is set for a fiber.
const KINDS: usize = THREAD | TICKET | WAKER;

/// Returns the id of a waiting fiber.
pub(crate) fn fiber_id(fiber: &ControlBlock) -> WaiterId {
    // SAFETY: `wake` finds the fiber by these bits, an address; the fiber stays as long as it
    // waits.
    unsafe { WaiterId::from_bits(ptr::from_ref(fiber).expose_provenance() as u64) }
}

/// Returns the id by which an object knows the waiter of `ticket`.
///
/// # Safety
///
/// The ticket stays in place until the object does not have the id any more, and its claimant, if
/// there is one, has redeemed it.
pub unsafe fn ticket_id(ticket: &Ticket<WaiterId>) -> WaiterId {
    // SAFETY: `wake` finds the ticket by these bits; it stays in place: this function's contract.
    unsafe { WaiterId::from_bits((ptr::from_ref(ticket).expose_provenance() | TICKET) as u64) }
}

/// Returns the id of a future that waits by this waker. Waking it frees the waker's memory.
///
/// # Safety
///
/// The memory belongs to the party that has the id in its hands: the object that it is published
/// in, or the party that takes it out of there.
pub unsafe fn waker_id(held: NonNull<HeldWaker>) -> WaiterId {
    // SAFETY: `wake` finds the waker by these bits; the memory belongs to the party that has the
    // id.
    unsafe { WaiterId::from_bits((held.as_ptr().expose_provenance() | WAKER) as u64) }
}

/// Returns true if `id` is that of a fiber which `worker` has started, or which ran there last.
///
/// # Safety
///
/// A waiter waits under this id.
pub(crate) unsafe fn is_of(id: WaiterId, worker: &Worker) -> bool {
    // SAFETY: by this function's contract.
    unsafe { fiber_of(id) }.is_some_and(|fiber| fiber.owner.is(worker))
}

/// Returns the fiber with this id; `None` if it is that of a thread, a ticket or a waker.
///
/// # Safety
///
/// A waiter waits under this id, and goes on doing so while the fiber is used.
pub unsafe fn fiber_of<'w>(id: WaiterId) -> Option<&'w ControlBlock> {
    let addr = id.bits() as usize;
    // SAFETY: the id was made by `fiber_id`; a waiter stays until it is woken.
    (addr & KINDS == 0).then(|| unsafe { &*ptr::with_exposed_provenance::<ControlBlock>(addr) })
}

/// Wakes the waiter with this id; `here` is the calling worker, if a worker calls. Returns false if
/// it is a select that another object had ended before.
///
/// # Safety
///
/// The caller has claimed the wait under which the id was published.
pub(crate) unsafe fn wake(call: InCall<'_>, id: WaiterId, here: Option<&Worker>) -> bool {
    let addr = id.bits() as usize;
    if addr & KINDS == 0 {
        // SAFETY: the id was made by `fiber_id`; a claimed waiter stays until it is woken.
        unsafe { &*ptr::with_exposed_provenance::<ControlBlock>(addr) }.wake(call, here);
        true
    } else if addr & THREAD != 0 {
        // SAFETY: the id was made by `ThreadWaiter::id`, likewise.
        unsafe {
            ThreadWaiter::wake(NonNull::new_unchecked(ptr::with_exposed_provenance_mut(
                addr & !THREAD,
            )))
        };
        true
    } else if addr & WAKER != 0 {
        // SAFETY: the id was made by `waker_id`; the caller has claimed it, and so the memory.
        unsafe { wake_future(addr & !WAKER) };
        true
    } else {
        // SAFETY: passed on to the caller.
        unsafe { redeem(call, addr & !TICKET, here) }
    }
}

/// Wakes the future whose held waker is at `addr`, and frees that.
///
/// The waker is user code. It must not suspend, as the caller may be at its end, or in the middle
/// of a function. A panic ends here: the code that wakes is not to blame.
///
/// # Safety
///
/// The caller owns the held waker, and does not use it again.
#[cold]
unsafe fn wake_future(addr: usize) {
    let held = ptr::with_exposed_provenance_mut::<HeldWaker>(addr);
    // SAFETY: passed on to the caller; no memory is at address 0.
    let waker = unsafe { HeldWaker::take(NonNull::new_unchecked(held)) };
    let wake = || panic::catch_unwind(AssertUnwindSafe(|| waker.wake()));
    let woken = match worker::try_caller() {
        Some((_, fiber)) => fiber.flags.no_suspend(wake),
        None => wake(),
    };
    if let Err(payload) = woken {
        std::mem::forget(payload);
    }
}

/// Redeems the ticket at `addr`. Returns false if that was too late.
///
/// # Safety
///
/// As for [`wake`], with the id of that ticket.
#[cold]
unsafe fn redeem(call: InCall<'_>, addr: usize, here: Option<&Worker>) -> bool {
    let ticket = ptr::with_exposed_provenance_mut::<Ticket<WaiterId>>(addr);
    // SAFETY: the id was made by `ticket_id`, and given out by the object once, to the caller.
    let redeemed = unsafe { Ticket::redeem(NonNull::new_unchecked(ticket)) };
    if let Redeemed::Taken(waiter) | Redeemed::TooLate(Some(waiter)) = redeemed {
        // SAFETY: the wait is claimed; the waiter of a ticket is no ticket.
        unsafe { wake(call, waiter, here) };
    }
    matches!(redeemed, Redeemed::Taken(_))
}

/// A thread that is no worker, or a worker's agent, while it waits for one event.
#[repr(align(64))]
pub struct ThreadWaiter {
    word: AtomicU32,
    /// The futex scope: private, or shared with processes that may wake it.
    scope: Scope,
}

kernel_local! {
    static THIS_THREAD: ThreadWaiter = const { ThreadWaiter::new(Scope::Private) };
}
kernel_local! {
    /// The same in shared memory, where other processes wake it, too.
    static IN_SEGMENT: Cell<Option<&'static ThreadWaiter>> = const { Cell::new(None) };
}

impl ThreadWaiter {
    /// Returns the waiter of the calling thread, which waits for one event at a time. It must not
    /// be handed to other threads, because it ends with its own.
    pub(crate) fn this_thread() -> &'static Self {
        if process::is_active() {
            return Self::in_segment();
        }
        // SAFETY: a thread-local without a destructor exists until its thread is gone.
        THIS_THREAD.with(|waiter| unsafe { &*ptr::from_ref(waiter) })
    }

    const fn new(scope: Scope) -> Self {
        ThreadWaiter { word: AtomicU32::new(0), scope }
    }

    /// Made once for each thread, and never freed: it takes one line, and few threads there are no
    /// fibers.
    #[cold]
    fn in_segment() -> &'static Self {
        IN_SEGMENT.with(Cell::get).unwrap_or_else(|| {
            let waiter = Box::leak(Box::new(Self::new(Scope::Shared)));
            IN_SEGMENT.with(|cell| cell.set(Some(waiter)));
            waiter
        })
    }

    pub(crate) fn id(&self) -> WaiterId {
        // SAFETY: `wake` finds the thread by these bits, an address and a low bit; the thread stays
        // as long as it waits.
        unsafe { WaiterId::from_bits((ptr::from_ref(self).expose_provenance() | THREAD) as u64) }
    }

    /// Blocks until the wake.
    pub(crate) fn block(&self) {
        let _ = self.block_until(Deadline::NEVER, || false);
    }

    /// Blocks until the wake. Returns false if the deadline passes first, or a signal handler runs
    /// and `ends_by_signal` returns true.
    pub(crate) fn block_until(
        &self,
        deadline: Deadline,
        ends_by_signal: impl Fn() -> bool,
    ) -> bool {
        // Acquire: pairs with the Release in `wake`.
        while self.word.load(Ordering::Acquire) == 0 {
            if deadline.is_over() {
                return false;
            }
            let end = futex::wait(&self.word, 0, deadline.ns(), self.scope);
            if end == WaitEnd::Interrupted && ends_by_signal() {
                return false;
            }
        }
        // Relaxed: for another wait, under an id that is published later.
        self.word.store(0, Ordering::Relaxed);
        true
    }

    /// Wakes the thread.
    ///
    /// # Safety
    ///
    /// The waiter is valid until the store below; afterwards its thread may be gone, so only its
    /// address is used, for a wake that then finds no waiter.
    unsafe fn wake(this: NonNull<Self>) {
        // SAFETY: valid until the store, by this function's contract.
        let (word, scope) = unsafe { (&raw const (*this.as_ptr()).word, this.as_ref().scope) };
        // SAFETY: as above.
        // Release: pairs with the Acquire in `block_until`.
        unsafe { (*word).store(1, Ordering::Release) };
        futex::wake_addr(word, 1, scope);
    }
}
