//! Timers: one wheel per worker, the timers in the frames of the waiters.
//!
//! A hierarchical timing wheel: George Varghese and Tony Lauck, *Hashed and Hierarchical Timing
//! Wheels: Data Structures for the Efficient Implementation of a Timer Facility*, SOSP 1987,
//! scheme 7. README.md beside this file has the states, the steps and the proof.

mod entry;
mod levels;

pub use entry::{Timer, TimerState};

use std::ptr::NonNull;

use crate::atomic::{AtomicU64, Ordering, UnsafeCell, const_fn};
use crate::list::Unlinked;
use crate::lock::{Contender, Held, QueueLock};
use levels::{LAST_TICK, Levels};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Resolution in ns: a timer is due at the first multiple that is not before its time.
pub const TICK_NS: u64 = 1024;

/// The timers of one worker. Times are ns of one clock that does not go back, such as
/// `CLOCK_MONOTONIC`.
///
/// The owner of the wheel arms and fires, or another thread fires for it; any thread may disarm.
/// The wheel needs no start: it comes to the present when it first fires. It takes about 9 KB, and
/// nothing per timer.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroU32;
/// use std::ptr::NonNull;
///
/// use daiko_core::lock::Contender;
/// use daiko_core::timer::{TICK_NS, Timer, TimerState, Wheel};
///
/// struct Owner;
///
/// impl Contender for Owner {
///     fn id(&self) -> NonZeroU32 {
///         NonZeroU32::MIN
///     }
///     fn relax(&self) {
///         std::thread::yield_now();
///     }
/// }
///
/// let (wheel, timer) = (Wheel::new(), Timer::new("waiter"));
/// // SAFETY: the timer is in no wheel, and outlives this one.
/// unsafe { wheel.arm(&Owner, NonNull::from(&timer), 5 * TICK_NS) };
/// assert_eq!(wheel.next_due(), 5 * TICK_NS);
/// assert_eq!(wheel.fire(&Owner, 5 * TICK_NS, |waiter| assert_eq!(waiter, "waiter")), 1);
/// assert_eq!(timer.state(), TimerState::Fired);
/// ```
pub struct Wheel<W> {
    /// Guards the levels and all timers in them; held while waiters are called.
    lock: QueueLock,
    /// The next due time, in ns. Stored under the lock, loaded by any thread.
    next_due: AtomicU64,
    /// Touched under the lock only.
    levels: UnsafeCell<Levels<W>>,
}

// SAFETY: levels and timers are touched under the lock only, except for the timers' states, which
// are atomic; a `W` is copied from the waiter to the firing thread.
unsafe impl<W: Copy + Send> Send for Wheel<W> {}
// SAFETY: as for Send.
unsafe impl<W: Copy + Send> Sync for Wheel<W> {}

impl<W: Copy> Wheel<W> {
    const_fn! {
        /// Creates a wheel without timers.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self {
                lock: QueueLock::new(),
                next_due: AtomicU64::new(u64::MAX),
                levels: UnsafeCell::new(Levels::EMPTY),
            }
        }
    }

    /// Returns the time at which [`Wheel::fire`] has something to do next, in ns; `u64::MAX` if no
    /// timer is armed. One relaxed load.
    ///
    /// It is never later than the first timer's due time, rounded up to a tick, as seen by the
    /// owner that armed that timer. It is earlier only after a timer was disarmed: a worker that
    /// sleeps from one value to the next wakes in vain at most once per disarmed timer, and at most
    /// once in a row if none is disarmed in between.
    #[inline]
    pub fn next_due(&self) -> u64 {
        // Relaxed: see `publish`.
        self.next_due.load(Ordering::Relaxed)
    }

    /// Arms `timer`: it fires at the first [`Wheel::fire`] that is not before `due_ns`, or a tick
    /// later.
    ///
    /// If a thread other than the owner arms it, the owner may sleep on. A time within the last
    /// tick that 64 bits hold counts as the beginning of that tick.
    ///
    /// # Safety
    ///
    /// `timer` is in no wheel. It stays alive and in place until [`Wheel::disarm`] returned, or its
    /// state is seen to be [`TimerState::Fired`].
    pub unsafe fn arm(&self, by: &impl Contender, timer: NonNull<Timer<W>>, due_ns: u64) {
        let tick = due_ns.div_ceil(TICK_NS).min(LAST_TICK);
        let held = self.lock.lock(by);
        // SAFETY: the timer is alive and in no wheel; the tick is in bounds; the lock is held.
        unsafe {
            self.with(|levels| levels.insert(timer, tick));
            self.publish(held);
        }
    }

    /// Disarms `timer`. Afterwards no other thread touches it, and no call for its waiter is under
    /// way or will come. Any thread may do this, but not while it fires this wheel.
    ///
    /// [`Unlinked::AlreadyGone`]: it has fired, or was not armed. No lock is taken if it is seen
    /// fired.
    ///
    /// # Safety
    ///
    /// `timer` is alive, and the wheel that it was last armed in is this one.
    pub unsafe fn disarm(&self, by: &impl Contender, timer: NonNull<Timer<W>>) -> Unlinked {
        // SAFETY: alive by this function's contract.
        let state = || unsafe { timer.as_ref() }.state();
        // Without the lock, because the firing thread does not touch a timer that is seen fired.
        if state() == TimerState::Fired {
            return Unlinked::AlreadyGone;
        }
        let held = self.lock.lock(by);
        if state() != TimerState::Armed && !cfg!(weaken = "timer-disarm") {
            return Unlinked::AlreadyGone;
        }
        // SAFETY: armed, so it is in these levels; the lock is held.
        unsafe {
            self.with(|levels| levels.remove(timer));
            timer.as_ref().set_out();
            self.publish(held);
        }
        Unlinked::Mine
    }

    /// Takes out the timers that are due at `now_ns`, earliest first, and calls `fire` once with
    /// the waiter of each. Returns the number of timers.
    ///
    /// One load if nothing is due. `fire` runs under the lock: it may queue and send messages, but
    /// not use this wheel. A waiter that it wakes may find its timer still armed; [`Wheel::disarm`]
    /// waits for the end of the call. Timers of one tick, or armed when their tick had passed, fire
    /// in any order.
    ///
    /// # Panics
    ///
    /// If `fire` does; its timer counts as fired, the timers not called for stay armed, and until
    /// the next call [`Wheel::next_due`] may return too early a time.
    pub fn fire(&self, by: &impl Contender, now_ns: u64, fire: impl FnMut(W)) -> usize {
        if self.next_due() > now_ns {
            return 0;
        }
        self.fire_held(self.lock.lock(by), now_ns, fire)
    }

    /// Fires like [`fire`](Self::fire), on behalf of an owner that does not get round to it. Fires
    /// none if the lock is held: the holder may be that owner, and away for long.
    ///
    /// # Panics
    ///
    /// The same as [`fire`](Self::fire).
    pub fn try_fire(&self, by: &impl Contender, now_ns: u64, fire: impl FnMut(W)) -> usize {
        if self.next_due() > now_ns {
            return 0;
        }
        self.lock.try_lock(by).map_or(0, |held| self.fire_held(held, now_ns, fire))
    }

    fn fire_held(&self, held: Held<'_>, now_ns: u64, mut fire: impl FnMut(W)) -> usize {
        let now = (now_ns / TICK_NS).min(LAST_TICK);
        let mut fired = 0;
        // SAFETY: the lock is held; a timer in a wheel is alive until its state says that it is
        // out.
        unsafe {
            while let Some(timer) = self.with(|levels| levels.pop_due(now)) {
                Due(timer).call(&mut fire);
                fired += 1;
            }
            self.publish(held);
        }
        fired
    }

    /// Stores the next due time, before the lock is free.
    ///
    /// # Safety
    ///
    /// `held` is this wheel's lock.
    unsafe fn publish(&self, held: Held<'_>) {
        // SAFETY: the lock is held.
        let earliest = unsafe { self.with(|levels| levels.earliest()) };
        if cfg!(weaken = "timer-next") {
            drop(held);
        }
        // Relaxed: the lock orders the stores, and the owner has seen those up to its own last one.
        self.next_due.store(earliest.map_or(u64::MAX, |tick| tick * TICK_NS), Ordering::Relaxed);
    }

    /// # Safety
    ///
    /// The lock is held.
    unsafe fn with<R>(&self, act: impl FnOnce(&mut Levels<W>) -> R) -> R {
        // SAFETY: the lock is held, and `act` has no way back here, so this is the only reference.
        self.levels.with_mut(|levels| act(unsafe { &mut *levels }))
    }
}

/// A timer that was taken out because it is due, and is alive. Dropping it gives it back to its
/// waiter, so that this comes last even if the call panics.
struct Due<W: Copy>(NonNull<Timer<W>>);

impl<W: Copy> Due<W> {
    fn call(self, fire: &mut impl FnMut(W)) {
        // SAFETY: alive until it is seen fired.
        let waiter = unsafe { self.0.as_ref() }.waiter();
        if cfg!(weaken = "timer-call") {
            drop(self);
        }
        fire(waiter);
    }
}

impl<W: Copy> Drop for Due<W> {
    fn drop(&mut self) {
        // SAFETY: alive until it is seen fired, which is stored here only.
        unsafe { Timer::set_fired(self.0) };
    }
}
