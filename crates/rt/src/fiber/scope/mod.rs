//! Scopes: fibers that borrow from the frame of their spawner.

mod child;

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;

pub(crate) use self::child::Family;
use self::child::Packet;
use super::abort_on_unwind::AbortOnUnwind;
use super::spawn::room;
use super::{Builder, Cancelled, Fiber, JoinError, JoinHandle, Joinable, SpawnError, unwind};
use crate::call::{self, Call, Item, ItemKind};
use crate::runtime::{self, RuntimeInner};
use crate::wait::Waiter;
use crate::worker;

/// The place where scoped fibers are spawned: [`scope`] passes one to its closure, as
/// [`std::thread::scope`] does.
///
/// `'scope` is the time in which fibers may be spawned, and run: it begins before the closure does
/// and ends when `scope` returns. `'env` is that of outside values that they borrow, and longer.
//
// Proof that no fiber of a scope touches borrowed values after `scope` has returned:
//
// 1. `scope` waits for all fibers before it returns, unwinds, or uses the outcome of the closure.
//    Between the closure and the end of that wait nothing unwinds: no cancel is raised there, and
//    `AbortOnUnwind` guards against a bug of the runtime. If a fiber's runtime ends first, the
//    fiber may never leave the wait; then its frames are never freed, nor is their owner.
// 2. The wait ends when every fiber that has entered has left (README.md of `core::children`). A
//    fiber enters before it is launched. Its spawner is the closure or a fiber that has not left,
//    since no value that lives on can hold a `&'scope Scope`.
// 3. The closure with its captures, the result and the family are bound to `'scope`. When a fiber
//    leaves, the closure was run or dropped. Its result was taken or dropped, or belongs to the
//    handle, which cannot leave `'scope` either, or was forgotten, and is then never looked at
//    again. A panic's payload is `'static`, as are thread-locals. Leaving is the last access to the
//    family. After that, to the end of its life, the fiber uses only its own block and stack, which
//    belong to the runtime.
// 4. So a stack may still be in use when `scope` returns, but no borrowed value is.
pub struct Scope<'scope, 'env: 'scope> {
    family: Family,
    runtime: &'scope RuntimeInner,
    /// Invariant: no time shorter than that for which `scope` waits will do.
    scope: PhantomData<&'scope mut &'scope ()>,
    /// Invariant, likewise.
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `f`, in which fibers can be spawned that borrow from outside, and waits for their end, like
/// [`std::thread::scope`].
///
/// It returns the result of `f` once `f` and all fibers of the scope have ended, including those
/// that other fibers have spawned in it. A calling fiber suspends meanwhile, any other thread
/// blocks.
///
/// ```
/// # use daiko_rt as daiko;
/// # daiko::run(|| {
/// let (mut numbers, limit) = (vec![1, 2, 3], 2);
/// let above = daiko::scope(|s| {
///     let above = s.spawn(|| numbers.iter().filter(|&&number| number > limit).count());
///     s.spawn(|| assert_eq!(numbers.len(), 3));
///     above.join().unwrap()
/// });
/// numbers.push(4);
/// assert_eq!(above, 1);
/// # });
/// ```
///
/// The fibers run in the runtime of the calling fiber. A thread that is no fiber may call it as
/// well: then `f` runs on that thread, and the fibers run in the default runtime, or in that of
/// [`Runtime::scope`](crate::Runtime::scope).
///
/// # Cancel
///
/// If the caller is cancelled, while `f` runs or while it waits, so are the fibers of the scope,
/// including those that are spawned in it later. The caller unwinds once all of them have ended. A
/// fiber that resists holds it up, even in a shutdown of the runtime; both are left behind then.
/// Inside `cancel::shield` the cancel waits, for the fibers too.
///
/// # Panics
///
/// If `f` panics, with its payload: the fibers are not cancelled, but waited for. Otherwise, if one
/// of the fibers panicked, or was lost with its [worker's process](crate::process), and was not
/// joined, even if the caller is cancelled too. A caller that joins a fiber receives its panic.
///
/// Inside [`no_suspend`](crate::no_suspend), or in an `agent::Poller`.
///
/// # Code that the compiler refuses
///
/// Values that a fiber borrows have to outlive the scope:
///
/// ```compile_fail,E0373
/// # use daiko_rt as daiko;
/// daiko::scope(|s| {
///     let inside = 7;
///     s.spawn(|| assert_eq!(inside, 7));
/// });
/// ```
///
/// Only one fiber at a time may change a value:
///
/// ```compile_fail,E0499
/// # use daiko_rt as daiko;
/// let mut count = 0;
/// daiko::scope(|s| {
///     s.spawn(|| count += 1);
///     s.spawn(|| count += 1);
/// });
/// ```
///
/// Neither can `f` itself while a fiber does:
///
/// ```compile_fail,E0502
/// # use daiko_rt as daiko;
/// let mut numbers = vec![1];
/// daiko::scope(|s| {
///     s.spawn(|| numbers.push(2));
///     assert_eq!(numbers.len(), 1);
/// });
/// ```
///
/// Values that are not [`Sync`] are not shared with fibers, which may run elsewhere:
///
/// ```compile_fail,E0277
/// # use daiko_rt as daiko;
/// let cell = std::cell::Cell::new(0);
/// daiko::scope(|s| {
///     s.spawn(|| cell.set(1));
/// });
/// ```
///
/// Neither a handle nor the scope leaves the scope:
///
/// ```compile_fail
/// # use daiko_rt as daiko;
/// let handle = daiko::scope(|s| s.spawn(|| 7));
/// ```
///
/// ```compile_fail,E0521
/// # use daiko_rt as daiko;
/// let mut kept: Option<&daiko::Scope<'_, '_>> = None;
/// daiko::scope(|s| kept = Some(s));
/// ```
///
/// ```compile_fail,E0521
/// # use daiko_rt as daiko;
/// use std::sync::Mutex;
///
/// let kept = Mutex::new(None);
/// daiko::scope(|s| {
///     s.spawn(|| *kept.lock().unwrap() = Some(s.spawn(|| 7)));
/// });
/// ```
#[doc(alias("JoinSet", "nursery"))]
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    in_runtime(runtime::of(worker::current()), f)
}

/// Runs [`scope`] with fibers of `runtime`.
#[track_caller]
pub(crate) fn in_runtime<'env, F, T>(runtime: &RuntimeInner, f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let mut call = Call::enter();
    // SAFETY: used by this call, on this thread or in this fiber.
    let waiter = unsafe { Waiter::caller("scope") };
    let scope = Scope { family: Family::new(), runtime, scope: PhantomData, env: PhantomData };
    let lent = Item::new(&scope.family, ptr::null(), &RECOVERY);
    call.add(lent);
    let result = call.user_code(|| panic::catch_unwind(AssertUnwindSafe(|| f(&scope))));
    // No cancel unwinds here: a suspension during an unwind would be seen by the neighbours.
    let borrowed = AbortOnUnwind;
    let unwound_by_cancel = result.as_ref().is_err_and(|payload| payload.is::<Cancelled>());
    if unwound_by_cancel {
        scope.family.cancel(call.token());
    }
    let cancelled = scope.family.wait(call.token(), &waiter);
    std::mem::forget(borrowed);
    call.remove(lent);
    match (result, scope.family.failure()) {
        (Err(payload), _) if !unwound_by_cancel => resume(payload),
        (_, Some(failure)) => fail(failure),
        (Err(payload), None) => raise_again(&waiter, payload),
        (Ok(result), None) => {
            if cancelled && let Waiter::Fiber(fiber) = waiter {
                unwind::raise_now(fiber);
            }
            result
        }
    }
}

/// Waits for the fibers of the scope on behalf of the fiber that opened it, which is lost.
static RECOVERY: ItemKind = ItemKind {
    recover: |call, family, _| {
        let (_, fiber) = worker::caller("the recovery of a scope");
        // SAFETY: the items of this kind are valid, and the fiber is the caller.
        unsafe { family.cast::<Family>().as_ref().settle(call, fiber) };
    },
};

/// Resumes the cancel that has unwound the body.
fn raise_again(waiter: &Waiter, payload: Box<dyn Any + Send>) -> ! {
    if let Waiter::Fiber(fiber) = waiter {
        fiber.flags.raise();
    }
    resume(payload)
}

fn resume(payload: Box<dyn Any + Send>) -> ! {
    call::unwinds();
    panic::resume_unwind(payload)
}

#[track_caller]
fn fail(failure: &str) -> ! {
    call::unwinds();
    panic!("{failure}")
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Spawns a fiber that may borrow from outside the scope; see [`scope`] and
    /// [`spawn`](crate::spawn).
    ///
    /// If its handle is dropped, the fiber is not joined, but waited for all the same. The fiber
    /// may spawn other fibers, if it is given the scope:
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// # daiko::run(|| {
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// let sum = AtomicU32::new(0);
    /// let add = |number| drop(sum.fetch_add(number, Ordering::Relaxed));
    /// daiko::scope(|s| {
    ///     s.spawn(|| {
    ///         s.spawn(|| add(1));
    ///         add(2);
    ///     });
    /// });
    /// assert_eq!(sum.into_inner(), 3);
    /// # });
    /// ```
    ///
    /// # Panics
    ///
    /// If there is no memory for one more fiber, or the runtime is shutting down;
    /// [`Builder::spawn_scoped`] returns an error instead.
    #[track_caller]
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        match Builder::new().spawn_scoped(self, f) {
            Ok(handle) => handle,
            Err(error) => panic!("Scope::spawn: {error}"),
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").finish_non_exhaustive()
    }
}

impl Builder {
    /// Spawns the fiber in `scope`, where it may borrow from outside the scope, like
    /// [`std::thread::Builder::spawn_scoped`].
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// # daiko::run(|| {
    /// let text = String::from("daiko");
    /// daiko::scope(|s| {
    ///     let builder = daiko::Builder::new().name("measurer").on(0);
    ///     let len = builder.spawn_scoped(s, || text.len()).unwrap();
    ///     assert_eq!(len.join().unwrap(), 5);
    /// });
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn).
    #[track_caller]
    pub fn spawn_scoped<'scope, 'env, F, T>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        f: F,
    ) -> Result<ScopedJoinHandle<'scope, T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let call = Call::enter();
        let call = call.token();
        let here = worker::current().filter(|worker| worker.is_of(scope.runtime));
        let (functions, room) =
            (&const { Packet::<F, T>::VTABLE }, const { room::<Packet<F, T>>() });
        let fiber = self.allocate(call, scope.runtime, here, functions, room)?;
        let packet = Packet::<F, T>::new(f, &scope.family, NonNull::from(fiber));
        // SAFETY: `allocate` made room for the packet, and the functions are for it.
        unsafe { fiber.packet.get().cast().write(packet) };
        let handle = JoinHandle::new(Fiber::from_block(NonNull::from(fiber)));
        // SAFETY: the packet is of that type, and the caller is in the body of the scope or of its
        // family, since no other code has the scope: see `Scope`.
        unsafe { scope.family.enter::<F, T>(call, fiber) };
        self.launch(call, scope.runtime, here, fiber);
        Ok(ScopedJoinHandle { handle, family: &scope.family })
    }
}

/// The right to wait for the end of a scoped fiber and to take its result, like
/// [`std::thread::ScopedJoinHandle`].
///
/// Dropping it leaves the fiber to the scope, which waits for it; its result is dropped.
pub struct ScopedJoinHandle<'scope, T> {
    handle: JoinHandle<T>,
    family: &'scope Family,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Returns the fiber.
    pub fn fiber(&self) -> &Fiber {
        self.handle.fiber()
    }

    /// Returns true if the fiber has ended, so that [`join`](Self::join) would return at once.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Makes the fiber unwind: see [`JoinHandle::cancel`]. The scope does not count that as a
    /// failure.
    #[doc(alias = "abort")]
    pub fn cancel(&self) {
        self.handle.cancel();
    }

    /// Waits for the fiber's end: a fiber suspends, any other thread blocks.
    ///
    /// ```
    /// # use daiko_rt as daiko;
    /// # daiko::run(|| {
    /// daiko::scope(|s| {
    ///     let bad = s.spawn(|| panic!("on purpose"));
    ///     let payload = bad.join().unwrap_err().into_panic().unwrap();
    ///     assert_eq!(*payload.downcast::<&str>().unwrap(), "on purpose");
    /// });
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// As [`JoinHandle::join`].
    ///
    /// # Panics
    ///
    /// As [`JoinHandle::join`].
    pub fn join(self) -> Result<T, JoinError> {
        let outcome = self.handle.join();
        outcome.inspect_err(|error| self.family.forgive(error))
    }
}

impl<T> Joinable for ScopedJoinHandle<'_, T> {
    type Output = T;

    fn take_end(&mut self) -> Option<Result<T, JoinError>> {
        let end = self.handle.take_end()?;
        Some(end.inspect_err(|error| self.family.forgive(error)))
    }

    unsafe fn wait(&self, waiter: WaiterId) -> bool {
        // SAFETY: passed on to the caller.
        unsafe { Joinable::wait(&self.handle, waiter) }
    }

    fn leave(&self, waiter: WaiterId) -> Unlinked {
        Joinable::leave(&self.handle, waiter)
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").field("fiber", self.fiber()).finish_non_exhaustive()
    }
}
