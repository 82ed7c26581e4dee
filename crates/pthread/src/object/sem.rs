//! Semaphores.

use std::ffi::{c_int, c_uint};
use std::mem::offset_of;

use daiko_rt::Deadline;

use super::scratch::{Scratch, done};
use crate::atomic::{AtomicU32, Ordering};
use crate::door::of_object;
use crate::errno::fail;
use crate::parking::{self, Outcome, Queue};
use crate::waits::{Target, TargetKind};
use crate::{cancel, clock};

/// A semaphore, as the C library lays it out.
#[repr(C)]
struct Semaphore {
    value: AtomicU32,
    /// The C library's count of waiters: none.
    waiters: u32,
    /// 0x80: process-shared.
    private: u32,
    pad: u32,
    queue: Queue,
}

const _: () = assert!(size_of::<Semaphore>() == 32);

/// The largest value.
const MAX: u32 = i32::MAX as u32;

impl Semaphore {
    /// # Safety
    ///
    /// `semaphore` is a semaphore that lives as long as the result is used.
    unsafe fn at<'s>(semaphore: *mut libc::sem_t) -> &'s Semaphore {
        // SAFETY: by this function's contract.
        unsafe { &*semaphore.cast::<Semaphore>() }
    }

    fn is_foreign(&self) -> bool {
        self.private != 0
    }

    #[inline]
    fn try_wait(&self) -> bool {
        let mut value = self.value.load(Ordering::Relaxed);
        while value > 0 {
            // Acquire: pairs with the Release in `post`.
            match self.value.compare_exchange_weak(
                value,
                value - 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => value = now,
            }
        }
        false
    }

    /// Waits until it has taken one; leaves an error in `errno` otherwise.
    #[inline]
    fn wait(&self, deadline: Deadline) -> c_int {
        if self.try_wait() { 0 } else { self.wait_slow(deadline) }
    }

    #[inline(never)]
    fn wait_slow(&self, deadline: Deadline) -> c_int {
        while !self.try_wait() {
            let none = || self.value.load(Ordering::Relaxed) == 0;
            let target = Target::new(TargetKind::Semaphore, self);
            match parking::wait(&self.queue, target, deadline, none) {
                Outcome::Over => {}
                Outcome::TimedOut => return fail(libc::ETIMEDOUT),
                Outcome::Interrupted(pending) => {
                    cancel::test();
                    if pending.ends_calls {
                        return fail(libc::EINTR);
                    }
                }
            }
        }
        0
    }
}

/// # Safety
///
/// As for `sem_init`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_sem_init(
    semaphore: *mut libc::sem_t,
    shared: c_int,
    value: c_uint,
) -> c_int {
    // SAFETY: by this function's contract. The C library leaves the bytes of the queue alone.
    unsafe {
        let result = libc::sem_init(semaphore, shared, value);
        if result == 0 && shared == 0 {
            (&raw mut (*semaphore.cast::<Semaphore>()).queue).write(Queue::new(0));
        }
        result
    }
}

of_object! { Semaphore:
    daiko_sem_wait = sem_wait(semaphore: *mut libc::sem_t) {
        cancel::test();
        semaphore.wait(Deadline::NEVER)
    };
    daiko_sem_clockwait = sem_clockwait(
        semaphore: *mut libc::sem_t,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) {
        // SAFETY: by this function's contract.
        match unsafe { clock::deadline(clock, until) } {
            Ok(deadline) => {
                cancel::test();
                semaphore.wait(deadline)
            }
            Err(error) => fail(error),
        }
    };
}

/// # Safety
///
/// As for `sem_trywait`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_sem_trywait(semaphore: *mut libc::sem_t) -> c_int {
    // SAFETY: by this function's contract. The C library knows the value alone.
    if unsafe { Semaphore::at(semaphore) }.try_wait() { 0 } else { fail(libc::EAGAIN) }
}

/// # Safety
///
/// As for `sem_timedwait`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_sem_timedwait(
    semaphore: *mut libc::sem_t,
    until: *const libc::timespec,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { daiko_sem_clockwait(semaphore, libc::CLOCK_REALTIME, until) }
}

/// # Safety
///
/// As for `sem_post`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_sem_post(semaphore: *mut libc::sem_t) -> c_int {
    // SAFETY: by this function's contract.
    let inner = unsafe { Semaphore::at(semaphore) };
    if inner.is_foreign() {
        // SAFETY: as above.
        return unsafe { libc::sem_post(semaphore) };
    }
    // Relaxed: the exchange below is the one that counts.
    let mut value = inner.value.load(Ordering::Relaxed);
    loop {
        if value == MAX {
            return fail(libc::EOVERFLOW);
        }
        // Release: pairs with the Acquire in `try_wait`. SeqCst: for the look at the queue.
        match inner.value.compare_exchange_weak(
            value,
            value + 1,
            Ordering::SeqCst,
            Ordering::Relaxed,
        ) {
            Ok(_) => break,
            Err(now) => value = now,
        }
    }
    parking::wake_one_after_rmw(&inner.queue);
    0
}

/// See [`layout`](super::layout).
pub(super) fn check_layout() -> Option<()> {
    const WORD: usize = size_of::<u32>();
    const VALUE: usize = offset_of!(Semaphore, value) / WORD;
    const PRIVATE: usize = offset_of!(Semaphore, private) / WORD;
    // SAFETY: the objects are there for all functions.
    unsafe {
        let init = |shared, value| {
            Scratch::<libc::sem_t, 8>::new(|semaphore| libc::sem_init(semaphore, shared, value))
        };
        let mut own = init(0, 5)?;
        own.has(&[(VALUE, 5)])?;
        done(libc::sem_post(own.pointer()))?;
        own.has(&[(VALUE, 6)])?;
        done(libc::sem_trywait(own.pointer()))?;
        own.has(&[(VALUE, 5)])?;
        let shared = init(1, 5)?;
        (shared.words()[PRIVATE] != 0).then_some(())
    }
}
