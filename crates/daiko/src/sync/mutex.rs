//! Mutual exclusion.

use crate::caller;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::mutex::{Acquire, Arrival, RawMutex, Seen, note};
use daiko_core::wait::Node;
use daiko_sys::clock;

use super::holding::Holding;
use super::poison::{LockResult, PoisonError, TimedLockError, TryLockError};
use daiko_rt::Deadline;
use daiko_rt::call::{self, Call, InCall, Item, ItemKind};
use daiko_rt::deadlock::{self, WaitKind, WaitTarget};
use daiko_rt::fiber::panicking;
use daiko_rt::notes;
use daiko_rt::runtime::kernel::ThisThread;
use daiko_rt::wait::{self, Ended, Object, Waiter};

/// How long after a waiter first arrives late the lock is handed over to it, whether or not the
/// processors have other work.
const LATE_NS: u64 = 500_000;

/// A lock around a value, as [`std::sync::Mutex`].
///
/// A fiber that has to wait suspends; any other thread blocks. Waiters are served in FIFO order.
/// While a woken waiter is on its way, another thread may take the lock first. At most 256 threads
/// do so, and none does once half a millisecond has passed since the waiter first arrived late.
/// Holding the lock over a suspension is allowed, at the expense of the waiters.
///
/// The lock is poisoned if a holder panics, as in `std`, or if a holder is lost with its [worker's
/// process](daiko_rt::process). A cancel does not poison it.
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
/// A fiber or thread that locks a mutex which it already holds would wait for itself forever. It
/// panics if locks are tracked: in a build with debug assertions, and once a runtime was built with
/// [`on_deadlock`](crate::RuntimeBuilder::on_deadlock). Otherwise it waits, as in `std`. A call
/// with a timeout always waits, and reports that the time is over.
pub struct Mutex<T: ?Sized> {
    raw: RawMutex<WaiterId>,
    value: UnsafeCell<T>,
}

const _: () = assert!(size_of::<Mutex<()>>() == 16);

// SAFETY: the lock gives the value to one holder at a time, and any owner of the mutex may drop it.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

/// The right to use the value of a locked [`Mutex`]; dropping it frees the lock.
///
/// The guard stays with the fiber or thread that locked: as in `std`, it is not [`Send`]. A
/// migratable fiber takes it along.
#[must_use = "a mutex is unlocked where its guard is dropped"]
#[clippy::has_significant_drop]
pub struct MutexGuard<'m, T: ?Sized> {
    mutex: &'m Mutex<T>,
    holding: Holding,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared reference to a guard gives only a shared reference to the value.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T> Mutex<T> {
    /// Creates a free lock around `value`.
    pub const fn new(value: T) -> Self {
        Mutex { raw: RawMutex::new(), value: UnsafeCell::new(value) }
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// If a holder panicked; the error contains the value.
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
    /// If a holder panicked; the error contains the guard.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](crate::no_suspend), or in a
    /// [`Poller`](crate::agent::Poller); or, where locks are [tracked](Self#panics), for itself.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let seen = match (!notes::has_any()).then(|| self.raw.acquire_fast()) {
            // Not poisoned, or the fast path would not have taken it.
            Some(Ok(())) => return Ok(self.guard(Holding::unnoted())),
            Some(Err(seen)) => Some(seen),
            None => None,
        };
        let holding = lock_slow(&self.raw, seen);
        self.unless_poisoned(holding)
    }

    /// Takes the lock as [`lock`](Self::lock) does, but waits for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or a holder panicked; then the error contains the guard.
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
        let call = Call::enter();
        if self.raw.try_acquire() || wait_in_line(call.token(), &self.raw, deadline()) {
            Ok(self.unless_poisoned(taken(&self.raw, &call))?)
        } else {
            Err(TimedLockError::TimedOut)
        }
    }

    /// Takes the lock if it is free.
    ///
    /// # Errors
    ///
    /// If it is not free, or a holder panicked; then the error contains the guard.
    #[track_caller]
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError<MutexGuard<'_, T>>> {
        let call = Call::enter();
        if self.raw.try_acquire() {
            Ok(self.unless_poisoned(taken(&self.raw, &call))?)
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Takes the lock again after a wait for a condition, which ended with `ended`.
    #[inline]
    #[track_caller]
    pub(super) fn lock_after(
        &self,
        call: InCall<'_>,
        waiter: &Waiter,
        node: &Node<WaiterId>,
        ended: Ended,
    ) -> LockResult<MutexGuard<'_, T>> {
        if ended != Ended::Claimed(note::HANDED_OVER) {
            self.come_again(call, waiter, node, ended);
        }
        self.unless_poisoned(Holding::of_caller(address(&self.raw)))
    }

    #[inline(never)]
    fn come_again(&self, call: InCall<'_>, waiter: &Waiter, node: &Node<WaiterId>, ended: Ended) {
        let arrival = match ended {
            Ended::Claimed(note::NOTIFIED) if self.raw.try_acquire() => return,
            Ended::Claimed(note::WOKEN) => Arrival::Woken,
            _ => Arrival::New,
        };
        wait_with(call, &self.raw, waiter, node, arrival, Deadline::NEVER);
    }

    /// Makes a guard again that was taken apart: for locks of other languages, which have no guard.
    ///
    /// # Safety
    ///
    /// `record` is that of the guard that was [taken apart](MutexGuard::into_record) last, by the
    /// calling fiber or thread, and the lock is held since.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn guard_of(&self, record: u8) -> MutexGuard<'_, T> {
        self.guard(Holding::from_bits(record))
    }

    pub(super) fn raw(&self) -> &RawMutex<WaiterId> {
        &self.raw
    }

    /// Makes the guard of a caller that has just taken the lock and records it as `holding`.
    #[inline]
    fn guard(&self, holding: Holding) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, holding, not_send: PhantomData }
    }

    /// Makes the guard, as an error if a holder panicked.
    #[inline]
    fn unless_poisoned(&self, holding: Holding) -> LockResult<MutexGuard<'_, T>> {
        let guard = self.guard(holding);
        if self.raw.is_poisoned() { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    /// Returns true if a holder panicked.
    pub fn is_poisoned(&self) -> bool {
        self.raw.is_poisoned()
    }

    /// Clears the poison, so that the mutex no longer reports a panic of a holder.
    pub fn clear_poison(&self) {
        let call = Call::enter();
        self.raw.clear_poison(ThisThread::of(call.token()));
    }

    /// Returns the value without locking, as the mutex is borrowed exclusively.
    ///
    /// # Errors
    ///
    /// If a holder panicked; the error contains the value.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        let poisoned = self.is_poisoned();
        let value = self.value.get_mut();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

/// The lock's identity where locks are tracked.
#[inline]
fn address(raw: &RawMutex<WaiterId>) -> usize {
    std::ptr::from_ref(raw).addr()
}

/// The lock's entry in its holder's robust list.
#[inline]
fn item(raw: &RawMutex<WaiterId>) -> Item {
    Item::new(raw, ptr::null(), &RECOVERY)
}

/// Records that the caller, in this call, has just taken the lock; returns how it is held.
#[inline]
#[track_caller]
fn taken(raw: &RawMutex<WaiterId>, call: &Call) -> Holding {
    call.add(item(raw));
    Holding::of_caller(address(raw)).in_robust_list(call)
}

/// Takes a lock that the fast path has not taken; returns how it is held. `seen` is what the fast
/// path found there, if it was tried.
#[inline(never)]
#[track_caller]
fn lock_slow(raw: &RawMutex<WaiterId>, seen: Option<Seen>) -> Holding {
    if call::notes_calls() {
        return lock_in_call(raw);
    }
    if !seen.map_or_else(|| raw.try_acquire(), |seen| raw.try_acquire_seen(seen)) {
        // SAFETY: sections are not noted, as was just found; used by this call.
        let _ = wait_in_line(unsafe { InCall::unnoted() }, raw, Deadline::NEVER);
    }
    Holding::of_caller(address(raw)).contended()
}

/// Takes the lock where calls are recorded, and waits if it is held.
#[inline]
#[track_caller]
fn lock_in_call(raw: &RawMutex<WaiterId>) -> Holding {
    // SAFETY: it is an exchange of the lock's word.
    match unsafe { Call::add_quickly(item(raw), || raw.try_acquire()) } {
        true => Holding::IN_ROBUST_LIST,
        false => lock_in_call_slow(raw),
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn lock_in_call_slow(raw: &RawMutex<WaiterId>) -> Holding {
    let call = Call::enter();
    if !raw.try_acquire() {
        let _ = wait_in_line(call.token(), raw, Deadline::NEVER);
    }
    taken(raw, &call)
}

/// Waits for the lock; returns false if the deadline passed.
#[cold]
#[inline(never)]
#[track_caller]
fn wait_in_line(call: InCall<'_>, raw: &RawMutex<WaiterId>, deadline: Deadline) -> bool {
    if wait::others_run() && raw.try_acquire_soon() {
        return true;
    }
    if deadline == Deadline::NEVER {
        deadlock::assert_not_held(address(raw), "a Mutex");
    }
    let waiter = caller::waiter("Mutex::lock");
    let node = Node::new(waiter.id());
    wait_with(call, raw, &waiter, &node, Arrival::New, deadline)
}

/// Waits for the lock with `node`, which is in no queue; returns false if the deadline passed.
fn wait_with(
    call: InCall<'_>,
    raw: &RawMutex<WaiterId>,
    waiter: &Waiter,
    node: &Node<WaiterId>,
    mut arrival: Arrival,
    deadline: Deadline,
) -> bool {
    // When the waiter first arrived late; `None` until another thread has been faster.
    let mut since = None;
    // SAFETY: the node is in no queue, and stays in place until it has left or is claimed.
    while unsafe { raw.acquire(ThisThread::of(call), NonNull::from(node), arrival) }
        == Acquire::Queued
    {
        if arrival != Arrival::New {
            since.get_or_insert_with(clock::monotonic_ns);
        }
        match waiter.wait(call, node, &InQueue(raw), deadline) {
            Ended::TimedOut => return false,
            Ended::Claimed(note::HANDED_OVER) => return true,
            Ended::Claimed(_) => {}
        }
        let late = since.is_some_and(|since| clock::monotonic_ns() - since >= LATE_NS);
        arrival = if late { Arrival::Late } else { Arrival::Woken };
    }
    true
}

/// Frees a lock that has waiters, or whose holder panics, and that is not noted.
#[cold]
#[inline(never)]
fn unlock_slow(raw: &RawMutex<WaiterId>) {
    unlock_in(Call::enter().token(), raw, panicking());
}

/// Frees a lock whose holding is noted besides the lock word.
#[inline(never)]
fn unlock_noted(raw: &RawMutex<WaiterId>, holding: Holding) {
    if holding == Holding::CONTENDED {
        return unlock_slow(raw);
    }
    let frees = || raw.release_fast();
    // SAFETY: it is an exchange of the lock's word.
    let removes = || unsafe { Call::remove_quickly(item(raw), frees) };
    if holding != Holding::IN_ROBUST_LIST || !removes() {
        unlock_noted_slow(raw, holding);
    }
}

#[cold]
#[inline(never)]
fn unlock_noted_slow(raw: &RawMutex<WaiterId>, holding: Holding) {
    let call = Call::enter();
    if holding.is_in_robust_list() {
        call.remove(item(raw));
    }
    unlock_in(call.token(), raw, holding.ends_in_panic(address(raw)));
}

/// Frees the lock, and poisons it first if its holder panics.
fn unlock_in(call: InCall<'_>, raw: &RawMutex<WaiterId>, panic: bool) {
    if panic {
        raw.poison();
    }
    wait::wake(call, raw.release(ThisThread::of(call)));
}

/// Poisons and frees the lock in place of its holder, which is lost.
static RECOVERY: ItemKind = ItemKind {
    recover: |call, raw, _| {
        // SAFETY: the items of this kind are valid locks.
        let raw = unsafe { raw.cast::<RawMutex<WaiterId>>().as_ref() };
        unlock_in(call, raw, true);
    },
};

/// The queue of a mutex, as a waiter sees it.
struct InQueue<'m>(&'m RawMutex<WaiterId>);

impl Object<WaiterId> for InQueue<'_> {
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

impl<'m, T: ?Sized> MutexGuard<'m, T> {
    /// Takes the guard apart. The lock stays held until [`Mutex::guard_of`] has made the guard
    /// again.
    #[doc(hidden)]
    #[inline]
    pub fn into_record(self) -> u8 {
        ManuallyDrop::new(self).holding.bits()
    }

    pub(super) fn raw(&self) -> &RawMutex<WaiterId> {
        &self.mutex.raw
    }

    /// Returns the mutex, whereas the lock has already been freed without the guard.
    pub(super) fn freed(self) -> &'m Mutex<T> {
        // No check for a panic: a panicking holder does not wait for a condition.
        let guard = ManuallyDrop::new(self);
        if !guard.holding.is_plain() {
            guard.strike_out();
        }
        guard.mutex
    }

    /// Records that the caller has held the lock since this call.
    pub(super) fn note(&mut self, call: &Call) {
        call.add(item(self.raw()));
        self.holding = self.holding.in_robust_list(call);
    }

    #[cold]
    fn strike_out(&self) {
        if self.holding.is_in_robust_list() {
            Call::enter().remove(item(self.raw()));
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
        // SAFETY: the guard's holder has the lock, and the guard is borrowed exclusively.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if !self.holding.is_plain() {
            unlock_noted(self.raw(), self.holding);
        } else if panicking() || !self.raw().release_fast() {
            unlock_slow(self.raw());
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
