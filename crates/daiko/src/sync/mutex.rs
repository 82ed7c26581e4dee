//! Mutual exclusion.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::mutex::{Acquire, Arrival, RawMutex, note};
use daiko_core::wait::Node;
use daiko_sys::clock;

use super::holding::Holding;
use super::poison::{LockResult, PoisonError, TimedLockError, TryLockError};
use daiko_rt::deadlock::{self, Kind, Target};
use daiko_rt::fiber::panicking;
use daiko_rt::process::{self, Call, Item, ItemKind, estate};
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Deadline, Ended, Object, Waiter};

/// So long after a waiter came too late for the first time the lock is handed over to it, whatever
/// the processors wait for.
const LATE_NS: u64 = 500_000;

/// A lock around a value, as [`std::sync::Mutex`].
///
/// A fiber that has to wait suspends, any other thread blocks. Who waits is served in turn, but
/// somebody else may have the lock while a woken waiter is on its way: at most 256 do, and none once
/// half a millisecond has passed since it came too late for the first time. Holding it over a suspension is allowed, and costs those
/// who wait.
///
/// It is poisoned where a holder panics, as in `std`, or is lost with its [worker's process](daiko_rt::process); not by a
/// cancel.
///
/// ```
/// use daiko::sync::Mutex;
/// use std::sync::Arc;
///
/// daiko::run(|| {
///     let count = Arc::new(Mutex::new(0));
///     let adders: Vec<_> = (0..4)
///         .map(|_| {
///             let count = Arc::clone(&count);
///             daiko::spawn(move || *count.lock().unwrap() += 1)
///         })
///         .collect();
///     adders.into_iter().for_each(|adder| adder.join().unwrap());
///     assert_eq!(*count.lock().unwrap(), 4);
/// });
/// ```
///
/// Only a guard unlocks:
///
/// ```compile_fail
/// daiko::sync::Mutex::new(0).unlock();
/// ```
///
/// # Panics
///
/// A fiber or thread that locks a mutex which it holds would wait for itself for ever. It panics
/// where locks are tracked: in a build with debug assertions, and once a runtime was built with
/// [`on_deadlock`](crate::RuntimeBuilder::on_deadlock). Elsewhere it waits, as in `std`; with a
/// timeout it always does, and is told when the time is over.
pub struct Mutex<T: ?Sized> {
    raw: RawMutex<WaiterId>,
    value: UnsafeCell<T>,
}

const _: () = assert!(size_of::<Mutex<()>>() == 16);

// SAFETY: the lock lets one at a time have the value, which may be dropped by whoever has the mutex.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// The right to use the value of a locked [`Mutex`]; dropping it frees the lock.
///
/// It stays with the fiber or thread that locked: as in `std`, it is not [`Send`]. A mover takes it
/// along.
#[must_use = "a mutex is unlocked where its guard is dropped"]
#[clippy::has_significant_drop]
pub struct MutexGuard<'m, T: ?Sized> {
    mutex: &'m Mutex<T>,
    holding: Holding,
    not_send: PhantomData<*const ()>,
}

// SAFETY: by reference a guard gives what the value's own type allows.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T> Mutex<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Mutex { raw: RawMutex::new(), value: UnsafeCell::new(value) }
    }

    /// The value.
    ///
    /// # Errors
    ///
    /// If a holder panicked; the error has the value.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.is_poisoned();
        let value = self.value.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the lock is free, and takes it.
    ///
    /// # Errors
    ///
    /// If a holder panicked; the error has the guard.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller); or, where locks are [tracked](Self#panics), for itself.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let holding = if process::notes_calls() {
            lock_in_call(&self.raw)
        } else {
            if !self.raw.try_acquire() {
                let _ = lock_slow(&self.raw, Deadline::NEVER);
            }
            Holding::of_caller(address(&self.raw))
        };
        self.guard(holding)
    }

    /// As [`lock`](Self::lock), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or a holder panicked; then the error has the guard.
    ///
    /// # Panics
    ///
    /// As [`lock`](Self::lock).
    #[track_caller]
    pub fn lock_timeout(
        &self,
        timeout: impl Into<Deadline>,
    ) -> Result<MutexGuard<'_, T>, TimedLockError<MutexGuard<'_, T>>> {
        self.lock_until(|| timeout.into())
    }

    #[track_caller]
    pub(crate) fn lock_until(
        &self,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<MutexGuard<'_, T>, TimedLockError<MutexGuard<'_, T>>> {
        let call = process::call();
        if self.raw.try_acquire() || lock_slow(&self.raw, deadline()) {
            Ok(self.guard(taken(&self.raw, &call))?)
        } else {
            Err(TimedLockError::TimedOut)
        }
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    ///
    /// If it is not, or a holder panicked; then the error has the guard.
    #[track_caller]
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError<MutexGuard<'_, T>>> {
        let call = process::call();
        if self.raw.try_acquire() {
            Ok(self.guard(taken(&self.raw, &call))?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Takes the lock again after a wait for a condition, which has `ended` so.
    #[inline]
    #[track_caller]
    pub(super) fn lock_after(
        &self,
        waiter: &Waiter,
        node: &Node<WaiterId>,
        ended: Ended,
    ) -> LockResult<MutexGuard<'_, T>> {
        if ended != Ended::Claimed(note::HANDED_OVER) {
            self.come_again(waiter, node, ended);
        }
        self.guard(Holding::of_caller(address(&self.raw)))
    }

    #[inline(never)]
    fn come_again(&self, waiter: &Waiter, node: &Node<WaiterId>, ended: Ended) {
        let arrival = match ended {
            Ended::Claimed(note::NOTIFIED) if self.raw.try_acquire() => return,
            Ended::Claimed(note::WOKEN) => Arrival::Woken,
            _ => Arrival::New,
        };
        wait_with(&self.raw, waiter, node, arrival, Deadline::NEVER);
    }

    pub(super) fn raw(&self) -> &RawMutex<WaiterId> {
        &self.raw
    }

    /// For who has just taken the lock, and holds it so.
    #[inline]
    fn guard(&self, holding: Holding) -> LockResult<MutexGuard<'_, T>> {
        let guard = MutexGuard { mutex: self, holding, not_send: PhantomData };
        if self.raw.is_poisoned() { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    /// Whether a holder panicked.
    pub fn is_poisoned(&self) -> bool {
        self.raw.is_poisoned()
    }

    /// Takes back that a holder panicked.
    pub fn clear_poison(&self) {
        let _call = process::call();
        self.raw.clear_poison(&ThisThread);
    }

    /// The value, which nobody else has, as the mutex is borrowed alone.
    ///
    /// # Errors
    ///
    /// If a holder panicked; the error has the value.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.is_poisoned();
        let value = self.value.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

/// What the lock is known by where locks are tracked.
#[inline]
fn address(raw: &RawMutex<WaiterId>) -> usize {
    std::ptr::from_ref(raw).addr()
}

/// What the lock is in its holder's estate.
#[inline]
fn item(raw: &RawMutex<WaiterId>) -> Item {
    Item::new(raw, ptr::null(), &RECOVERY)
}

/// Notes that the caller, in this call, has just taken the lock; how it holds it.
#[inline]
#[track_caller]
fn taken(raw: &RawMutex<WaiterId>, call: &Call) -> Holding {
    call.gains(item(raw));
    Holding::of_caller(address(raw)).in_estate(call)
}

/// Waits for the lock if somebody has it, where calls are noted.
#[inline(never)]
#[track_caller]
fn lock_in_call(raw: &RawMutex<WaiterId>) -> Holding {
    match estate::gains_quickly(item(raw), || raw.try_acquire()) {
        true => Holding::IN_ESTATE,
        false => lock_in_call_slow(raw),
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn lock_in_call_slow(raw: &RawMutex<WaiterId>) -> Holding {
    let call = process::call();
    if !raw.try_acquire() {
        let _ = lock_slow(raw, Deadline::NEVER);
    }
    taken(raw, &call)
}

/// Waits for the lock; false if the deadline passed.
#[cold]
#[inline(never)]
#[track_caller]
fn lock_slow(raw: &RawMutex<WaiterId>, deadline: Deadline) -> bool {
    if wait::others_run() && raw.try_acquire_soon() {
        return true;
    }
    if deadline == Deadline::NEVER {
        deadlock::assert_not_held(address(raw), "a Mutex");
    }
    let waiter = Waiter::caller("Mutex::lock");
    let node = Node::new(waiter.id());
    wait_with(raw, &waiter, &node, Arrival::New, deadline)
}

/// Waits for the lock with `node`, which is in no queue; false if the deadline passed.
fn wait_with(
    raw: &RawMutex<WaiterId>,
    waiter: &Waiter,
    node: &Node<WaiterId>,
    mut arrival: Arrival,
    deadline: Deadline,
) -> bool {
    // When it came too late for the first time: until then nobody has been faster.
    let mut since = None;
    // SAFETY: the node is in no queue, and stays until it has left or is claimed.
    while unsafe { raw.acquire(&ThisThread, NonNull::from(node), arrival) } == Acquire::Queued {
        if arrival != Arrival::New {
            since.get_or_insert_with(clock::monotonic_ns);
        }
        match waiter.wait(node, &InQueue(raw), deadline) {
            Ended::TimedOut => return false,
            Ended::Claimed(note::HANDED_OVER) => return true,
            Ended::Claimed(_) => {}
        }
        let late = since.is_some_and(|since| clock::monotonic_ns() - since >= LATE_NS);
        arrival = if late { Arrival::Late } else { Arrival::Woken };
    }
    true
}

/// Frees the lock, of which something else is to be remembered.
#[inline(never)]
fn unlock_held(raw: &RawMutex<WaiterId>, holding: Holding) {
    let frees = || raw.release_fast();
    if holding != Holding::IN_ESTATE || !estate::parts_quickly(item(raw), frees) {
        unlock_held_slow(raw, holding);
    }
}

#[cold]
#[inline(never)]
fn unlock_held_slow(raw: &RawMutex<WaiterId>, holding: Holding) {
    let call = process::call();
    if holding.is_in_estate() {
        call.parts_with(item(raw));
    }
    unlock_in(raw, holding.ends_in_panic(address(raw)));
}

/// Frees the lock, whose holder panics or does not.
#[inline]
fn unlock_in(raw: &RawMutex<WaiterId>, panic: bool) {
    if panic {
        raw.poison();
    }
    unlock(raw);
}

#[inline]
fn unlock(raw: &RawMutex<WaiterId>) {
    if !raw.release_fast() {
        unlock_slow(raw);
    }
}

#[cold]
fn unlock_slow(raw: &RawMutex<WaiterId>) {
    wait::wake(raw.release(&ThisThread));
}

/// Poisons and frees the lock in the stead of its holder, which is lost.
static RECOVERY: ItemKind = ItemKind {
    recover: |raw, _, _| {
        // SAFETY: the items of this kind are valid locks.
        let raw = unsafe { raw.cast::<RawMutex<WaiterId>>().as_ref() };
        raw.poison();
        unlock(raw);
    },
};

/// The queue of a mutex, as a waiter sees it.
struct InQueue<'m>(&'m RawMutex<WaiterId>);

impl Object<WaiterId> for InQueue<'_> {
    unsafe fn leave(&self, node: NonNull<Node<WaiterId>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.0.leave(&ThisThread, node) }
    }

    fn give_way(&self, note: u8) -> bool {
        wait::wake(self.0.give_way(&ThisThread, note));
        true
    }

    fn target(&self) -> Target {
        Target::new(Kind::Mutex, self.0)
    }
}

impl<'m, T: ?Sized> MutexGuard<'m, T> {
    pub(super) fn raw(&self) -> &RawMutex<WaiterId> {
        &self.mutex.raw
    }

    /// The mutex, whose lock has been freed without the guard.
    pub(super) fn freed(self) -> &'m Mutex<T> {
        // Without a look for a panic: who panics does not wait.
        let guard = ManuallyDrop::new(self);
        if !guard.holding.is_plain() {
            guard.strike_out();
        }
        guard.mutex
    }

    /// Notes that the caller has it since this call.
    pub(super) fn note(&mut self, call: &Call) {
        call.gains(item(self.raw()));
        self.holding = self.holding.in_estate(call);
    }

    #[cold]
    fn strike_out(&self) {
        if self.holding.is_in_estate() {
            process::call().parts_with(item(self.raw()));
        }
        self.holding.strike_out(address(self.raw()));
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard's holder has the lock.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's holder has the lock, and the guard is borrowed alone.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.holding.is_plain() {
            unlock_in(self.raw(), panicking());
        } else {
            unlock_held(self.raw(), self.holding);
        }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Mutex");
        match self.try_lock() {
            Ok(guard) => debug.field("value", &&*guard),
            Err(TryLockError::Poisoned(error)) => debug.field("value", &&**error.get_ref()),
            Err(TryLockError::WouldBlock) => debug.field("value", &format_args!("<locked>")),
        };
        debug.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Mutex::new(value)
    }
}
