//! Fork and join: two closures, of which an idle worker may take the second.
//!
//! The second closure lies in the frame of the caller, and so does all that its runner shares with
//! the caller (`core::offer`). The caller takes it back, or waits until it has ended.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe, Location};
use std::ptr::NonNull;
use std::thread;

use daiko_core::offer::{Begun, Offered};

use super::abort_on_unwind::AbortOnUnwind;
use super::cancelled::Cancelled;
use super::control::{Lost, Vtable};
use super::scope::scope;
use super::spawn::room;
use super::spawn_error::SpawnError;
use super::{Builder, ControlBlock, Fiber, JoinError, unwind, waiter};
use crate::call::{Call, InCall};
use crate::deadlock::{WaitKind, WaitTarget};
use crate::process;
use crate::worker::{self, Offer, Worker, suspend};

/// Runs both closures, in parallel if a worker is idle, and returns both results.
///
/// The closures may borrow from the caller. `b` is offered to idle workers, `a` is run; then `b` is
/// run as well, unless a worker has begun it: then the caller waits for its end, and its worker
/// goes on with other fibers. So a call costs little more than a call of both closures, and a nest
/// of calls divides its work among the workers by itself.
///
/// ```
/// # use daiko_rt as daiko;
/// fn sum(numbers: &[u64]) -> u64 {
///     if numbers.len() <= 1000 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = daiko::join(|| sum(left), || sum(right));
///     left + right
/// }
///
/// let numbers: Vec<u64> = (0..100_000).collect();
/// assert_eq!(daiko::run(move || sum(&numbers)), 4_999_950_000);
/// ```
///
/// # Where the closures run
///
/// `a` runs in the calling fiber, with its thread-locals and its `FiberLocal`s. So does `b`, unless
/// a worker has begun it; then it runs in a fiber of its own, with thread-locals of its own. If the
/// caller [borrows](Builder::borrowed) those of its worker, that fiber does, too. So code that
/// needs a certain value of a thread-local sets it inside of the closure, as under a thread pool.
///
/// While `a` is suspended, `b` may begin, on the same worker as well. So `a` may wait for `b` as a
/// fiber does, but must not block its kernel thread until `b` has done something: no worker may be
/// idle.
///
/// A thread that is no fiber has both run by a fiber of the default runtime, and blocks. Both
/// closures are run one after the other where nothing may suspend: inside
/// [`no_suspend`](crate::no_suspend), in an `agent::Poller`, and while the thread is
/// [panicking](std::thread::panicking); and where workers are [processes](crate::process).
///
/// # Cancel
///
/// If the caller is cancelled in `a`, or while it waits, `b` is cancelled as well, or dropped if it
/// has not begun. The caller unwinds once `b` has ended.
///
/// # Panics
///
/// If one of the closures panics, with its payload; the other closure is run all the same. If both
/// panic, with the payload of `a`.
///
/// # Code that the compiler refuses
///
/// Either closure may run on another thread, and both at the same time:
///
/// ```compile_fail,E0277
/// # use daiko_rt as daiko;
/// let count = std::rc::Rc::new(0);
/// daiko::join(|| *count, || 0);
/// ```
///
/// ```compile_fail,E0499
/// # use daiko_rt as daiko;
/// let mut numbers = vec![1];
/// daiko::join(|| numbers.push(2), || numbers.push(3));
/// ```
///
/// ```compile_fail,E0277
/// # use daiko_rt as daiko;
/// daiko::join(|| 0, || std::rc::Rc::new(0));
/// ```
#[doc(alias("fork", "par"))]
#[inline]
#[track_caller]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    match worker::try_caller() {
        Some((worker, fiber)) if may_offer(fiber) => offered(worker, fiber, a, b),
        Some((_, fiber)) => in_turn(Some(fiber), a, b),
        None if worker::current().is_some() || process::is_active() => in_turn(None, a, b),
        None => outside(a, b),
    }
}

/// Returns true if `fiber`, the caller, may wait for a closure that another worker runs.
#[inline]
fn may_offer(fiber: &ControlBlock) -> bool {
    // A killed process would leave frames behind that other processes work in.
    let must_not_wait = fiber.flags.has_any() && fiber.flags.is_no_suspend();
    !(process::is_active() || must_not_wait || thread::panicking())
}

/// Runs both closures in a fiber of the default runtime, on behalf of a thread that is no fiber.
#[cold]
#[track_caller]
fn outside<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    match scope(|s| s.spawn(|| join(a, b)).join()) {
        Ok(results) => results,
        Err(JoinError::Panicked(payload)) => panic::resume_unwind(payload),
        Err(error) => panic!("daiko::join: {error}"),
    }
}

/// Runs both closures one after the other, in `fiber` if the caller is one.
fn in_turn<A, B, RA, RB>(fiber: Option<&ControlBlock>, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB,
{
    match panic::catch_unwind(AssertUnwindSafe(a)) {
        Ok(first) => (first, b()),
        Err(payload) => first_panicked(fiber, payload, Second::Closure(b)),
    }
}

/// Offers `b` and runs `a`, in `fiber`, the caller.
#[inline]
#[track_caller]
fn offered<A, B, RA, RB>(worker: &Worker, fiber: &'static ControlBlock, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA,
    B: FnOnce() -> RB,
{
    let job = Job::new(fiber, b);
    // SAFETY: the caller is a fiber of that worker. It leaves this frame by a return, or by an
    // unwind, only once it has taken the offer back, or the work has ended: `a` cannot unwind out
    // of it.
    let place = crate::in_call!(|call| unsafe { worker.offer(call, job.offer()) });
    let Ok(place) = place else { return in_turn(Some(fiber), a, job.into_closure()) };
    let first = panic::catch_unwind(AssertUnwindSafe(a));
    if !worker.take_offer_back(place, job.offer()) {
        return joined(fiber, first, &job);
    }
    let b = job.into_closure();
    match first {
        Ok(first) => (first, b()),
        Err(payload) => first_panicked(Some(fiber), payload, Second::Closure(b)),
    }
}

/// Waits for `job`, which a worker has claimed, in `fiber`, the caller; returns both results.
#[inline(never)]
fn joined<B: FnOnce() -> RB, RA, RB>(
    fiber: &'static ControlBlock,
    first: thread::Result<RA>,
    job: &Job<B, RB>,
) -> (RA, RB) {
    let unwound_by_cancel = first.as_ref().is_err_and(|payload| payload.is::<Cancelled>());
    let cancelled = wait(fiber, &job.shared, unwound_by_cancel);
    // SAFETY: the work has ended.
    match (first, unsafe { job.take() }) {
        (Err(payload), second) => first_panicked(Some(fiber), payload, second),
        (Ok(_), Second::Outcome(Err(payload))) if !payload.is::<Cancelled>() => {
            panic::resume_unwind(payload)
        }
        (Ok(_), _) if cancelled => unwind::raise_now(fiber),
        (Ok(first), Second::Closure(b)) => (first, b()),
        (Ok(first), Second::Outcome(Ok(second))) => (first, second),
        // The shutdown has cancelled the runner, and not reached the caller, which has no result.
        (Ok(_), Second::Outcome(Err(payload))) => {
            fiber.flags.raise();
            panic::resume_unwind(payload)
        }
    }
}

/// Waits for the end of claimed work, in `fiber`, the caller; returns true if a cancel of the
/// caller is due. The cancel has then been passed on, as it is if the caller `unwinds` already.
fn wait(fiber: &'static ControlBlock, work: &Offered<ControlBlock>, unwinds: bool) -> bool {
    // The runner does not exist in this process.
    let is_forked = worker::current().is_none();
    assert!(
        !is_forked || work.has_ended(),
        "daiko::join: the second closure runs in the parent, from which this process was forked"
    );
    let call = Call::enter();
    let call = call.token();
    // The runner is in the frame of the caller.
    let borrowed = AbortOnUnwind;
    let mut cancelled = fiber.flags.has_any() && unwind::is_due_before(fiber);
    if cancelled || unwinds {
        cancel(work);
    }
    if let Some(worker) = worker::current() {
        worker.begin_any_offer();
    }
    if work.wait(waiter::fiber_id(fiber)) {
        fiber.waiting_for(target(work), || {
            // Read each time: a migratable fiber may have changed its worker.
            while worker::current().is_some_and(|worker| !suspend::wait(call, worker, fiber)) {
                if !cancelled && unwind::is_due(fiber) {
                    cancelled = true;
                    cancel(work);
                }
            }
        });
    }
    // The caller's reference.
    drop(work.runner().map(Fiber::from_block));
    std::mem::forget(borrowed);
    cancelled || unwind::is_due(fiber)
}

/// Returns the name of the wait for reports of deadlocks.
fn target(work: &Offered<ControlBlock>) -> WaitTarget {
    match work.runner() {
        Some(runner) => WaitTarget::new(WaitKind::Join, runner.as_ptr()),
        None => WaitTarget::of(WaitKind::Unknown),
    }
}

/// Cancels claimed work that has not ended.
fn cancel(work: &Offered<ControlBlock>) {
    if let Some(runner) = work.cancel() {
        // SAFETY: the caller has a reference until the work has ended.
        unsafe { runner.as_ref() }.retain();
        Fiber::from_block(runner).cancel();
    }
}

/// Ends a join in `fiber`, the first closure of which has panicked: the second is run, unless the
/// panic is a cancel.
#[cold]
fn first_panicked<B: FnOnce() -> RB, RB>(
    fiber: Option<&ControlBlock>,
    payload: Box<dyn Any + Send>,
    second: Second<B, RB>,
) -> ! {
    let is_cancel = payload.is::<Cancelled>();
    let other = panic::catch_unwind(AssertUnwindSafe(|| match second {
        Second::Closure(b) if !is_cancel => drop(b()),
        unwanted => drop(unwanted),
    }));
    // Never dropped: its destructor may panic, too, and that panic has no receiver.
    std::mem::forget(other);
    match fiber {
        Some(fiber) if is_cancel => fiber.flags.raise(),
        Some(fiber) => fiber.flags.end_unwind(),
        None => {}
    }
    panic::resume_unwind(payload)
}

/// The second closure, or its outcome.
enum Second<B, RB> {
    Closure(B),
    Outcome(thread::Result<RB>),
}

/// The second closure in the frame of its caller.
#[repr(C)]
struct Job<B, RB> {
    /// First, so that its address is that of the job.
    offer: Offer,
    shared: Offered<ControlBlock>,
    /// The calling fiber.
    caller: &'static ControlBlock,
    spawned_at: &'static Location<'static>,
    /// True if the worker that has claimed the work found no memory for a fiber. Written by that
    /// worker, before the end.
    is_returned: Cell<bool>,
    /// The closure; the outcome, if the work has ended and was not returned.
    body: UnsafeCell<Body<B, RB>>,
}

union Body<B, RB> {
    closure: ManuallyDrop<B>,
    outcome: ManuallyDrop<thread::Result<RB>>,
}

impl<B: FnOnce() -> RB, RB> Job<B, RB> {
    /// The functions of the fiber that runs a job. Its packet is the address of the job.
    const VTABLE: Vtable = Vtable {
        run: Self::run,
        cancel: Self::cancel,
        drop_result: |_| {},
        leave: Some(Self::leave),
        lost: Lost::Ends,
    };

    #[inline]
    #[track_caller]
    fn new(caller: &'static ControlBlock, b: B) -> Self {
        Job {
            offer: Offer { begin: Self::begin },
            shared: Offered::new(),
            caller,
            spawned_at: Location::caller(),
            is_returned: Cell::new(false),
            body: UnsafeCell::new(Body { closure: ManuallyDrop::new(b) }),
        }
    }

    #[inline]
    fn offer(&self) -> NonNull<Offer> {
        NonNull::from(self).cast()
    }

    /// Returns the closure of a job that no worker has claimed.
    #[inline]
    fn into_closure(self) -> B {
        // SAFETY: the body is a closure until the work is run.
        ManuallyDrop::into_inner(unsafe { self.body.into_inner().closure })
    }

    /// Returns the outcome, or the closure of work that was returned.
    ///
    /// # Safety
    ///
    /// The work has ended. The body is taken once.
    unsafe fn take(&self) -> Second<B, RB> {
        debug_assert!(self.shared.has_ended());
        // SAFETY: no other thread uses the body any more, and it is not used after this.
        let body = unsafe { self.body.get().read() };
        // SAFETY: the body of returned work is the closure, that of other work is the outcome.
        unsafe {
            match self.is_returned.get() {
                true => Second::Closure(ManuallyDrop::into_inner(body.closure)),
                false => Second::Outcome(ManuallyDrop::into_inner(body.outcome)),
            }
        }
    }

    /// Makes a fiber of `worker` of the job, or returns it.
    ///
    /// # Safety
    ///
    /// `offer` is that of a job of this type, which `worker`, the caller's, has claimed.
    unsafe fn begin(offer: NonNull<Offer>, call: InCall<'_>, worker: &Worker) {
        let job = offer.cast::<Self>();
        // SAFETY: the caller of the job stays in its frame until the end.
        let this = unsafe { job.as_ref() };
        match this.runner(call, worker) {
            Ok(fiber) => {
                if this.shared.begin(NonNull::from(fiber)) == Begun::Cancelled {
                    fiber.must_unwind();
                }
                worker.start_here(call, fiber);
            }
            Err(_) => {
                this.is_returned.set(true);
                // SAFETY: claimed, and ended here alone.
                unsafe { Self::end(job, call, Some(worker)) }
            }
        }
    }

    /// Makes the fiber that will run the job. It has one reference for the caller of the job.
    fn runner<'w>(
        &self,
        call: InCall<'_>,
        worker: &'w Worker,
    ) -> Result<&'w ControlBlock, SpawnError> {
        let runtime = worker.runtime();
        let builder = Builder::pinned_like(self.caller, runtime);
        let (functions, room) = (&const { Self::VTABLE }, const { room::<NonNull<Self>>() });
        let fiber = builder.allocate(call, runtime, Some(worker), functions, room)?;
        fiber.spawned_at.set(self.spawned_at);
        // SAFETY: `allocate` made room for the packet.
        unsafe { fiber.packet.get().cast().write(NonNull::from(self)) };
        Ok(fiber)
    }

    /// Returns the job of a packet.
    ///
    /// # Safety
    ///
    /// `packet` is that of the fiber of such a job, which has not ended.
    unsafe fn of(packet: NonNull<u8>) -> NonNull<Self> {
        // SAFETY: `runner` has written it.
        unsafe { packet.cast::<NonNull<Self>>().read() }
    }

    /// Runs the closure, and leaves its outcome in the job.
    ///
    /// # Safety
    ///
    /// As for [`of`](Self::of); the body is the closure, which is not used again.
    unsafe fn run(packet: NonNull<u8>) {
        // SAFETY: by this function's contract; the runner has the body alone.
        unsafe {
            let body = Self::of(packet).as_ref().body.get();
            let closure = ManuallyDrop::take(&mut (*body).closure);
            let outcome = panic::catch_unwind(AssertUnwindSafe(closure));
            body.write(Body { outcome: ManuallyDrop::new(outcome) });
        }
    }

    /// Drops the closure, and leaves a cancel in the job.
    ///
    /// # Safety
    ///
    /// As for [`run`](Self::run).
    unsafe fn cancel(packet: NonNull<u8>) {
        // SAFETY: as in `run`.
        unsafe {
            let body = Self::of(packet).as_ref().body.get();
            let closure = ManuallyDrop::take(&mut (*body).closure);
            let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(closure)));
            let payload = dropped.err().unwrap_or_else(|| Box::new(Cancelled::WHOLLY));
            body.write(Body { outcome: ManuallyDrop::new(Err(payload)) });
        }
    }

    /// Ends the work: the runner's last access to the frame of the caller.
    ///
    /// # Safety
    ///
    /// As for [`of`](Self::of); the outcome is in the job, and the fiber leaves it once.
    unsafe fn leave(call: InCall<'_>, packet: NonNull<u8>) {
        // SAFETY: by this function's contract.
        unsafe { Self::end(Self::of(packet), call, worker::current()) };
    }

    /// Ends the work, and wakes the caller of the job if it waits; `here` is the calling worker.
    ///
    /// # Safety
    ///
    /// The job is claimed, and ended once.
    unsafe fn end(job: NonNull<Self>, call: InCall<'_>, here: Option<&Worker>) {
        // SAFETY: the frame stays until the end.
        let owner = unsafe {
            let shared = &raw mut (*job.as_ptr()).shared;
            Offered::end(NonNull::new_unchecked(shared))
        };
        if let Some(owner) = owner {
            // SAFETY: the end has claimed the wait.
            unsafe { waiter::wake(call, owner, here) };
        }
    }
}
