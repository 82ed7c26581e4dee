//! The life of a fiber: from its first switch to its last.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;

use daiko_core::fiber::Finish;

use super::cancelled::Cancelled;
use super::control::{ControlBlock, Lost, Vtable};
use super::join::{JoinError, JoinOutcome};
use super::waiter;
use crate::call::InCall;
use crate::worker::{self, Worker, suspend};

/// The content of a packet: the closure, and later the result.
#[repr(C)]
pub(super) union PacketBody<F, T> {
    closure: ManuallyDrop<F>,
    outcome: ManuallyDrop<JoinOutcome<T>>,
}

impl<F, T> PacketBody<F, T> {
    pub(super) fn new(closure: F) -> Self {
        PacketBody { closure: ManuallyDrop::new(closure) }
    }
}

/// The functions for a closure of type `F`.
pub(crate) struct Functions<F, T>(std::marker::PhantomData<(F, T)>);

impl<F: FnOnce() -> T, T> Functions<F, T> {
    pub(crate) const VTABLE: Vtable = Vtable {
        run: run::<F, T>,
        cancel: cancel::<F, T>,
        drop_result: drop_result::<T>,
        leave: None,
        lost: Lost::Ends,
    };
}

/// Runs the closure in the packet, and leaves its outcome there.
///
/// # Safety
///
/// `packet` holds an `F`, and has room for an `JoinOutcome<T>`.
unsafe fn run<F: FnOnce() -> T, T>(packet: NonNull<u8>) {
    // SAFETY: the packet holds an `F`, which is not read again.
    let closure = unsafe { packet.cast::<F>().read() };
    let outcome = panic::catch_unwind(AssertUnwindSafe(closure)).map_err(JoinError::from_payload);
    // SAFETY: the packet has room for it.
    unsafe { packet.cast::<JoinOutcome<T>>().write(outcome) };
}

/// Drops the closure in the packet, and leaves an error there.
///
/// # Safety
///
/// As for `run`.
unsafe fn cancel<F: FnOnce() -> T, T>(packet: NonNull<u8>) {
    // SAFETY: the packet holds an `F`, which is not read again.
    let closure = unsafe { packet.cast::<F>().read() };
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(closure)));
    let error = dropped.map_or_else(JoinError::from_payload, |()| JoinError::Cancelled);
    // SAFETY: the packet has room for it.
    unsafe { packet.cast::<JoinOutcome<T>>().write(Err(error)) };
}

/// Drops the outcome in the packet.
///
/// # Safety
///
/// `packet` holds an `JoinOutcome<T>`.
unsafe fn drop_result<T>(packet: NonNull<u8>) {
    // SAFETY: the packet holds it, and it is not used again.
    unsafe { packet.cast::<JoinOutcome<T>>().drop_in_place() };
}

impl JoinError {
    pub(super) fn from_payload(payload: Box<dyn Any + Send>) -> Self {
        match payload.downcast::<Cancelled>() {
            Ok(_) => JoinError::Cancelled,
            Err(payload) => JoinError::Panicked(payload),
        }
    }
}

/// Runs a fiber from its begin to its end.
///
/// # Safety
///
/// `arg` is the fiber's control block, in use, and the fiber runs on the stack below it.
pub(crate) unsafe extern "C" fn entry(arg: *mut u8) -> ! {
    suspend::arrive();
    // SAFETY: by this function's contract.
    let fiber = unsafe { &*arg.cast::<ControlBlock>() };
    if fiber.is_own() {
        // SAFETY: the fiber begins.
        unsafe { begin_thread_locals(fiber) };
    }
    let (vtable, packet) = (fiber.vtable.get(), fiber.packet.get());
    let cancelled = fiber.flags.is_cancelled() && !fiber.is_foreign();
    let body = if cancelled { vtable.cancel } else { vtable.run };
    if fiber.has_exec_mode() {
        fiber.exec_mode.resume();
    }
    // SAFETY: the spawn put the closure into the packet, and it is run once.
    unsafe { body(packet) };
    end_thread_locals(fiber);
    if fiber.has_exec_mode() {
        fiber.exec_mode.end();
    }
    drop_locals(fiber);
    // Read before any other thread can learn of the end, and shut the runtime down for that reason.
    let unwound =
        fiber.flags.is_cancelled() && worker::current().is_some_and(Worker::is_shutting_down);
    let finish = fiber.completion.finish();
    if finish == Finish::Detached {
        drop_unwanted(vtable, packet);
        // The locals that the destructor of the result has used.
        end_thread_locals(fiber);
        drop_locals(fiber);
    }
    // SAFETY: the fiber calls.
    let Some(worker) = (unsafe { worker::here_unless_forked() }) else { end_of_child() };
    let call = InCall::agent(worker);
    if let Some(leave) = vtable.leave {
        // SAFETY: the fiber has come to its end, once.
        unsafe { leave(call, packet) };
    }
    if let Finish::Wake(id) = finish {
        // SAFETY: the end has claimed the wait.
        unsafe { waiter::wake(call, id, Some(worker)) };
    }
    if unwound {
        worker.counters.unwound.add(1);
    }
    suspend::finish(worker, fiber)
}

/// Ends a child process that the fiber, the caller, has forked, as any process ends with its last
/// thread.
#[cold]
fn end_of_child() -> ! {
    std::process::exit(0)
}

/// Gives the fiber, the caller, thread-locals like those of a new thread.
///
/// # Safety
///
/// The fiber has a thread control block. None of its code has run.
#[inline(never)]
unsafe fn begin_thread_locals(fiber: &ControlBlock) {
    // SAFETY: the runtime outlives its fibers.
    let pool = &unsafe { fiber.runtime.as_ref() }.pool;
    // SAFETY: by this function's contract.
    unsafe { pool.blocks().begin(pool.thread_pointer(fiber.into())) };
}

/// Runs the destructors of the thread-locals of the fiber, the caller, if it has any of its own.
/// They are user code, which may suspend. A cancel does not unwind them, since the end of a
/// destructor by a panic ends the process.
#[inline]
fn end_thread_locals(fiber: &ControlBlock) {
    if fiber.is_own() {
        // SAFETY: the runtime outlives its fibers.
        let pool = &unsafe { fiber.runtime.as_ref() }.pool;
        // SAFETY: the fiber runs with this block.
        fiber.flags.shield(|| unsafe { pool.blocks().end(pool.thread_pointer(fiber.into())) });
    }
}

#[inline]
fn drop_locals(fiber: &ControlBlock) {
    // SAFETY: the data is the fiber's own, and stays at least until `end`.
    if let Some(data) = unsafe { fiber.locals.get().as_ref() } {
        (data.end)(InCall::off_fibers(), fiber);
        // Those that the destructors of locals were the first to use.
        end_thread_locals(fiber);
    }
}

/// Drops a result without a taker. A panic in its destructor ends here, because it has no receiver.
#[cold]
fn drop_unwanted(vtable: &Vtable, packet: NonNull<u8>) {
    // SAFETY: `run` or `cancel` left the result there, and it is not used again.
    let dropped = panic::catch_unwind(|| unsafe { (vtable.drop_result)(packet) });
    if let Err(payload) = dropped {
        std::mem::forget(payload);
    }
}
