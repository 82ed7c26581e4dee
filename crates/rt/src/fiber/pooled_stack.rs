//! Calls on stacks of the pool.

use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::thread;

use daiko_context::call_on;

use super::ControlBlock;
use super::kind::Kind;
use crate::call::{self, Call};
use crate::process;
use crate::worker::{self, Worker};

/// Runs `f` on a stack that the worker keeps for such calls, and returns its result.
///
/// Each fiber's own frames are cold when it is resumed after thousands of fibers, and a call that
/// goes deep touches many lines of them. Calls on a pooled stack use the same lines, one after the
/// other, as the tasks of an event loop do. So a program with many sessions runs the work of a
/// request there: between the wait for the request and the reply, and preferably where it does not
/// suspend.
///
/// `f` may do all that it may do on the fiber's stack. If it suspends, it keeps the stack until it
/// ends, and the worker takes another one for the next call. The stack has the size that
/// [`RuntimeBuilder::stack_size`](crate::RuntimeBuilder::stack_size) sets, not that of the fiber's
/// own: so the fibers can have small stacks.
///
/// Outside of a fiber, and in fibers of worker processes, which may be lost at any time, it only
/// runs `f`.
///
/// ```
/// # use daiko_rt as daiko;
/// # daiko::run(|| {
/// fn digits(number: u64) -> String {
///     // Would not fit on the stack of the fiber below.
///     let mut room = [0u8; 100_000];
///     let bytes = number.to_string().into_bytes();
///     room[..bytes.len()].copy_from_slice(&bytes);
///     String::from_utf8_lossy(&room[..bytes.len()]).into_owned()
/// }
///
/// let session = daiko::Builder::new().stack_size(64 << 10);
/// let reply = session.spawn(|| daiko::on_pooled_stack(|| digits(42))).unwrap();
/// assert_eq!(reply.join().unwrap(), "42");
/// # });
/// ```
///
/// # Panics
///
/// If `f` panics, with its payload; if there is no memory for one more stack, before `f` runs.
#[doc(alias = "grow")]
#[doc(alias = "systemstack")]
#[track_caller]
pub fn on_pooled_stack<R>(f: impl FnOnce() -> R) -> R {
    match worker::try_caller() {
        Some((worker, fiber)) if !fiber.is_lent() && !process::is_active() => {
            call_on_taken(PooledStack::take(worker), f)
        }
        _ => call_here(f),
    }
}

/// Runs `f` on the stack of the caller, which has room for its locals only if it comes to that.
#[inline(never)]
fn call_here<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// A closure on its way to another stack, later its outcome.
union Errand<F, R> {
    closure: ManuallyDrop<F>,
    outcome: ManuallyDrop<thread::Result<R>>,
}

#[inline]
fn call_on_taken<F: FnOnce() -> R, R>(stack: PooledStack, f: F) -> R {
    let mut errand = Errand { closure: ManuallyDrop::new(f) };
    // SAFETY: a stack of the pool is mapped, aligned below its block, and this call's alone until
    // it is dropped. `run` gets a closure, and catches its panics.
    unsafe { call_on(stack.top(), run::<F, R>, (&raw mut errand).cast()) };
    drop(stack);
    // SAFETY: `run` has left the outcome, which is taken once.
    match ManuallyDrop::into_inner(unsafe { errand.outcome }) {
        Ok(result) => result,
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Runs the closure of an errand, and leaves its outcome there.
///
/// # Safety
///
/// `errand` is an `Errand<F, R>` with its closure.
unsafe extern "C" fn run<F: FnOnce() -> R, R>(errand: *mut u8) {
    let errand: *mut Errand<F, R> = errand.cast();
    // SAFETY: by this function's contract; the closure is not read again.
    let closure = ManuallyDrop::into_inner(unsafe { (&raw const (*errand).closure).read() });
    let outcome = panic::catch_unwind(AssertUnwindSafe(closure));
    // SAFETY: the errand is valid, and has room for the outcome.
    unsafe { errand.write(Errand { outcome: ManuallyDrop::new(outcome) }) };
}

/// A stack that a fiber has taken from the pool beside its own; dropping it gives it back.
struct PooledStack(NonNull<ControlBlock>);

impl PooledStack {
    #[inline]
    #[track_caller]
    fn take(worker: &Worker) -> Self {
        let call = Call::enter();
        let runtime = worker.runtime();
        match runtime.pool.take(call.token(), runtime, Some(worker), Kind::BORROWED, None) {
            Ok(block) => PooledStack(block),
            Err(error) => {
                call::unwinds();
                panic!("daiko::on_pooled_stack: {error}")
            }
        }
    }

    /// Returns the address where the stack begins, below its block.
    #[inline]
    fn top(&self) -> *mut u8 {
        self.0.as_ptr().cast()
    }
}

impl Drop for PooledStack {
    #[inline]
    fn drop(&mut self) {
        let call = Call::enter();
        // SAFETY: the block is unused but for its stack, and outlives the fiber.
        unsafe { self.0.as_ref().runtime.as_ref() }.pool.put(call.token(), self.0);
    }
}
