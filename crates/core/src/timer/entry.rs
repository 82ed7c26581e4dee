//! One timer, as an entry of a wheel.

use std::ptr::NonNull;

use crate::atomic::{AtomicU8, Ordering, UnsafeCell, unless_weakened};
use crate::circle::{Circular, Links};

/// The place of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerState {
    /// Outside any wheel: not armed yet, or disarmed.
    Out,
    /// The timer is in a wheel.
    Armed,
    /// The timer was due, and the call for its waiter has returned.
    Fired,
}

/// One waiter's timer. It lies in memory of the waiter, usually in its stack frame.
///
/// It may be armed again once it is out or has fired.
pub struct Timer<W> {
    /// Touched under the wheel's lock, or by the waiter while the timer is in no wheel.
    links: Links<Self>,
    /// The due time. Touched as the links are.
    tick: UnsafeCell<u64>,
    /// Stored under the wheel's lock; loaded by the waiter at any time.
    state: AtomicU8,
    /// Written by the waiter before the timer is armed.
    waiter: W,
}

// SAFETY: only `waiter` leads anywhere, and a copy of it goes to the wheel's owner.
unsafe impl<W: Copy + Send> Send for Timer<W> {}
// SAFETY: links and tick are touched under the wheel's lock, the state is atomic, the waiter is
// only copied.
unsafe impl<W: Copy + Send> Sync for Timer<W> {}

// SAFETY: always the same field.
unsafe impl<W> Circular for Timer<W> {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl<W: Copy> Timer<W> {
    const OUT: u8 = 0;
    const ARMED: u8 = 1;
    const FIRED: u8 = 2;

    /// Creates a timer of `waiter`, in no wheel.
    pub fn new(waiter: W) -> Self {
        Self {
            links: Links::new(),
            tick: UnsafeCell::new(0),
            state: AtomicU8::new(Self::OUT),
            waiter,
        }
    }

    /// Returns the place of the timer. A waiter that sees it fired owns it again, and sees the
    /// writes of the call.
    pub fn state(&self) -> TimerState {
        // Acquire: pairs with the Release in `set_fired`.
        match self.state.load(Ordering::Acquire) {
            Self::OUT => TimerState::Out,
            Self::ARMED => TimerState::Armed,
            _ => TimerState::Fired,
        }
    }

    /// Returns the waiter that the timer stands for.
    pub fn waiter(&self) -> W {
        self.waiter
    }

    /// Returns the due time, in ticks.
    ///
    /// # Safety
    ///
    /// The timer is armed, and the caller holds the wheel's lock.
    pub(super) unsafe fn tick(&self) -> u64 {
        // SAFETY: the lock keeps writers out.
        self.tick.with(|tick| unsafe { *tick })
    }

    /// # Safety
    ///
    /// The timer is in no wheel, and the caller holds the lock of the wheel that it will be in.
    pub(super) unsafe fn set_armed(&self, due: u64) {
        debug_assert_ne!(self.state(), TimerState::Armed, "a timer is in one wheel at a time");
        // SAFETY: a timer that is in no wheel is the caller's.
        self.tick.with_mut(|tick| unsafe { *tick = due });
        self.state.store(Self::ARMED, Ordering::Relaxed);
    }

    pub(super) fn set_out(&self) {
        self.state.store(Self::OUT, Ordering::Relaxed);
    }

    /// Gives the timer back to its waiter, which may free it before this returns: hence no `&self`,
    /// which would have to be valid for longer.
    ///
    /// # Safety
    ///
    /// `timer` is alive.
    pub(super) unsafe fn set_fired(timer: NonNull<Self>) {
        // Release: pairs with the Acquire in `state`. From here on the timer is the waiter's.
        let ordering = unless_weakened!("timer-fired", Ordering::Release);
        // SAFETY: alive by this function's contract; the reference is to an atomic alone.
        unsafe { &(*timer.as_ptr()).state }.store(Self::FIRED, ordering);
    }
}
