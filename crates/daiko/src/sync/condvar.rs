//! Waiting for a condition that a mutex guards.

use crate::caller;
use std::fmt;
use std::ptr::NonNull;
use std::time::Duration;

use daiko_core::condvar::{OtherMutex, RawCondvar};
use daiko_core::fiber::WaiterId;
use daiko_core::list::Unlinked;
use daiko_core::mutex::{RawMutex, note};
use daiko_core::wait::Node;

use super::mutex::{Mutex, MutexGuard};
use super::poison::LockResult;
use daiko_rt::Deadline;
use daiko_rt::call::{self, Call, InCall};
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::fiber::waiter;
use daiko_rt::runtime::kernel::{ThisThread, ThisWorker};
use daiko_rt::wait::{self, Ended, Object};

/// A condition that other threads make true, as [`std::sync::Condvar`].
///
/// If the mutex is held at the notification, the waiter is not woken only to block again: it moves
/// to the queue of the mutex. There are no spurious wakes. Still, a condition that was true at the
/// notification may be false by the return, so a loop, or [`wait_while`](Self::wait_while), is
/// needed.
///
/// A cancel unwinds out of a wait without the lock.
///
/// ```
/// use daiko::sync::{Condvar, Mutex};
/// use std::sync::Arc;
///
/// daiko::run(|| {
///     let pair = Arc::new((Mutex::new(false), Condvar::new()));
///     let setter = Arc::clone(&pair);
///     daiko::spawn(move || {
///         *setter.0.lock().unwrap() = true;
///         setter.1.notify_one();
///     });
///     let (ready, changed) = &*pair;
///     let ready = changed.wait_while(ready.lock().unwrap(), |ready| !*ready).unwrap();
///     assert!(*ready);
/// });
/// ```
pub struct Condvar {
    raw: RawCondvar<WaiterId>,
}

/// Result of a wait with a timeout: whether the time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns true if the time was over before a notification came.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Creates a condition without waiters.
    pub const fn new() -> Self {
        Condvar { raw: RawCondvar::new() }
    }

    /// Frees the lock, waits for a notification, and takes the lock again.
    ///
    /// # Errors
    ///
    /// If a holder of the mutex panicked; the error contains the guard.
    ///
    /// # Panics
    ///
    /// If other waiters use another mutex; inside [`no_suspend`](crate::no_suspend); in a
    /// [`Poller`](crate::agent::Poller).
    #[inline(always)]
    #[track_caller]
    pub fn wait<'m, T: ?Sized>(&self, guard: MutexGuard<'m, T>) -> LockResult<MutexGuard<'m, T>> {
        self.wait_until(guard, Deadline::NEVER).0
    }

    /// Waits until `condition` is false.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[inline]
    #[track_caller]
    pub fn wait_while<'m, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'m, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'m, T>> {
        while condition(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits as [`wait`](Self::wait) does, but for at most `timeout`, besides the time to take the
    /// lock.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout<'m, T: ?Sized>(
        &self,
        guard: MutexGuard<'m, T>,
        timeout: impl Into<Deadline>,
    ) -> LockResult<(MutexGuard<'m, T>, WaitTimeoutResult)> {
        self.wait_timed(guard, timeout.into())
    }

    /// Waits until `condition` is false, for at most `timeout`, besides the time to take the lock.
    /// The result says whether the time was over while the condition still held.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout_while<'m, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'m, T>,
        timeout: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'m, T>, WaitTimeoutResult)> {
        let (deadline, mut timed_out) = (Deadline::after(timeout), WaitTimeoutResult(false));
        while condition(&mut guard) {
            if timed_out.0 {
                return Ok((guard, timed_out));
            }
            (guard, timed_out) = self.wait_timed(guard, deadline)?;
        }
        Ok((guard, WaitTimeoutResult(false)))
    }

    #[track_caller]
    fn wait_timed<'m, T: ?Sized>(
        &self,
        guard: MutexGuard<'m, T>,
        deadline: Deadline,
    ) -> LockResult<(MutexGuard<'m, T>, WaitTimeoutResult)> {
        let (result, ended) = self.wait_until(guard, deadline);
        let timed_out = WaitTimeoutResult(ended == Ended::TimedOut);
        match result {
            Ok(guard) => Ok((guard, timed_out)),
            Err(error) => Err(super::PoisonError::new((error.into_inner(), timed_out))),
        }
    }

    /// Inlined, as it returns after the context switch.
    #[inline(always)]
    #[track_caller]
    fn wait_until<'m, T: ?Sized>(
        &self,
        guard: MutexGuard<'m, T>,
        deadline: Deadline,
    ) -> (LockResult<MutexGuard<'m, T>>, Ended) {
        if call::notes_calls() {
            return self.wait_in_call(guard, deadline);
        }
        // SAFETY: sections are not noted, as was just found; used by this call.
        self.wait_now(unsafe { InCall::unnoted() }, guard, deadline)
    }

    // No closure: it would be reported as the place where the mutex was locked.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn wait_in_call<'m, T: ?Sized>(
        &self,
        guard: MutexGuard<'m, T>,
        deadline: Deadline,
    ) -> (LockResult<MutexGuard<'m, T>>, Ended) {
        let call = Call::enter();
        let (mut locked, ended) = self.wait_now(call.token(), guard, deadline);
        match &mut locked {
            Ok(guard) => guard.note(&call),
            Err(error) => error.get_mut().note(&call),
        }
        (locked, ended)
    }

    #[inline(always)]
    #[track_caller]
    fn wait_now<'m, T: ?Sized>(
        &self,
        call: InCall<'_>,
        guard: MutexGuard<'m, T>,
        deadline: Deadline,
    ) -> (LockResult<MutexGuard<'m, T>>, Ended) {
        // The guard must still exist here: a cancel that is due frees the lock by it.
        let waiter = caller::waiter("Condvar::wait");
        let node = Node::new(waiter.id());
        let mutex = self.begin(call, guard, &node);
        let notified = Notified { condvar: self, mutex: mutex.raw() };
        let ended = waiter.wait_inlined(call, &node, &notified, deadline);
        if ended == Ended::Claimed(note::NOTIFIED) {
            inherits_nothing();
        }
        (mutex.lock_after(call, &waiter, &node, ended), ended)
    }

    /// Queues `node` and frees the lock.
    #[inline(never)]
    fn begin<'m, T: ?Sized>(
        &self,
        call: InCall<'_>,
        guard: MutexGuard<'m, T>,
        node: &Node<WaiterId>,
    ) -> &'m Mutex<T> {
        let (here, node) = (ThisWorker::get(call), NonNull::from(node));
        // SAFETY: used by this call, which does not suspend.
        let hand_off =
            unsafe { here.worker() }.and_then(|worker| worker.take_hand_off(guard.raw()));
        // SAFETY: the node is new, and its frame is left only after it has left or was claimed. The
        // mutex is borrowed for longer. The receiver of a direct hand-off is next on this thread
        // once the caller, a fiber, suspends.
        match unsafe { self.raw.wait(&here, guard.raw(), node, hand_off, wait::is_here) } {
            Ok(first) => {
                let mutex = guard.freed();
                wait::wake(call, first);
                mutex
            }
            Err(OtherMutex) => {
                call::unwinds();
                panic!(
                    "daiko: a Condvar was waited for with two mutexes at a time; use one for each"
                )
            }
        }
    }

    /// Wakes the longest waiter, if there is any.
    #[inline]
    pub fn notify_one(&self) {
        if !self.raw.is_empty() {
            self.notify_first();
        }
    }

    /// Wakes all waiters, one after the other as the mutex allows.
    #[inline]
    pub fn notify_all(&self) {
        if !self.raw.is_empty() {
            self.notify_every();
        }
    }

    #[inline(never)]
    fn notify_first(&self) {
        daiko_rt::in_call!(|call| {
            let here = ThisWorker::get(call);
            let runs_next = |waiter, node, mutex: &_| offer_hand_off(here, waiter, node, mutex);
            wait::wake(call, self.raw.notify_one(&here, runs_next, now_for_mutex));
        });
    }

    #[inline(never)]
    fn notify_every(&self) {
        let call = Call::enter();
        let call = call.token();
        wait::wake(call, self.raw.notify(ThisThread::of(call), usize::MAX, now_for_mutex));
    }
}

/// Returns true if `waiter` runs on this thread once the caller suspends. Then it may receive
/// `mutex` by a direct hand-off, which is recorded.
fn offer_hand_off(
    here: ThisWorker<'_>,
    waiter: WaiterId,
    node: NonNull<Node<WaiterId>>,
    mutex: &RawMutex<WaiterId>,
) -> bool {
    // SAFETY: used by this call, which does not suspend.
    let Some(worker) = (unsafe { here.worker() }) else { return false };
    // SAFETY: the id is that of a waiter, which keeps waiting until it is woken.
    let Some(fiber) = (unsafe { waiter::fiber_of(waiter) }) else { return false };
    let runs_next = fiber.owner.is(worker);
    if runs_next {
        worker.set_hand_off(fiber, node, mutex);
    }
    runs_next
}

/// Cancels the hand-off to the caller, a notified waiter that runs and acquires the mutex itself.
#[cold]
fn inherits_nothing() {
    if let Some((worker, fiber)) = caller::try_caller() {
        worker.cancel_hand_off(fiber);
    }
}

/// Records that a notified waiter waits for the mutex from now on.
fn now_for_mutex(waiter: WaiterId, mutex: &RawMutex<WaiterId>) {
    wait::moves_to(waiter, WaitTarget::new(WaitKind::Mutex, mutex));
}

/// The object of a waiter: the condition variable, and after the notification the mutex.
struct Notified<'c> {
    condvar: &'c Condvar,
    mutex: &'c RawMutex<WaiterId>,
}

impl Object<WaiterId> for Notified<'_> {
    unsafe fn leave(&self, call: InCall<'_>, node: NonNull<Node<WaiterId>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.condvar.raw.leave(ThisThread::of(call), node) }
    }

    fn give_way(&self, call: InCall<'_>, note: u8) -> bool {
        if note == note::NOTIFIED {
            inherits_nothing();
        }
        let next = self.condvar.raw.give_way(ThisThread::of(call), self.mutex, note);
        next.into_iter().for_each(|next| wait::wake(call, next));
        true
    }

    fn target(&self) -> WaitTarget {
        WaitTarget::new(WaitKind::Condvar, self.condvar)
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
