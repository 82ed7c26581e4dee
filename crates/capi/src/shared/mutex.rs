//! Mutexes of segments.

use std::cell::UnsafeCell;
use std::ffi::c_char;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

use daiko::shm::{Mutex, MutexGuard, Segment, TimedLockError};
use daiko::time::Deadline;
use libc::timespec;

use super::{How, name};
use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed, give};

/// `daiko_shared_mutex`: a handle of a mutex of a segment, and the guard while the handle holds it.
pub(super) struct HeldSharedMutex {
    /// The guard. Its holder, which has set `is_held`, uses it.
    guard: UnsafeCell<Option<MutexGuard<'static, u64>>>,
    is_held: AtomicBool,
    lock: Mutex<u64>,
}

impl HeldSharedMutex {
    pub(super) fn keep(&self, guard: MutexGuard<'_, u64>) {
        // SAFETY: the guard borrows `lock`, which lies in a box, and is dropped after the guard.
        let guard: MutexGuard<'static, u64> = unsafe { mem::transmute(guard) };
        // SAFETY: the caller holds the lock, and so alone uses the place.
        unsafe { *self.guard.get() = Some(guard) };
        // Relaxed: the lock orders it for the next holder.
        self.is_held.store(true, Ordering::Relaxed);
    }

    /// Takes the guard.
    ///
    /// # Errors
    ///
    /// `EPERM` if the handle does not hold the lock.
    pub(super) fn guard(&self) -> Result<MutexGuard<'_, u64>, Code> {
        if !self.is_held.swap(false, Ordering::Relaxed) {
            return Err(libc::EPERM);
        }
        // SAFETY: by `daiko.h`, the caller holds the lock, and so alone uses the place.
        unsafe { (*self.guard.get()).take() }.ok_or(libc::EPERM)
    }

    /// Takes the lock, and keeps its guard.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`; `EOWNERDEAD`, with the lock, if a holder has died.
    pub(super) fn lock(&self, deadline: Deadline) -> Result<(), Code> {
        match self.lock.lock_timeout(deadline) {
            Ok(guard) => self.keep(guard),
            Err(TimedLockError::TimedOut) => return Err(libc::ETIMEDOUT),
            Err(TimedLockError::Poisoned(error)) => {
                self.keep(error.into_inner());
                return Err(libc::EOWNERDEAD);
            }
        }
        Ok(())
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mutex_open(
    mutex: OutPlace<*const HeldSharedMutex>,
    segment: Passed<Segment>,
    called: *const c_char,
    how: u32,
) -> Code {
    answer(|| {
        mutex.check()?;
        let (segment, called) = (segment.get()?, name(called)?);
        let lock = How::of(how)?.get(
            || Mutex::open(segment, called),
            || Mutex::create(segment, called, 0),
            || Mutex::open_or_create(segment, called, 0),
        )?;
        let (guard, is_held) = (UnsafeCell::new(None), AtomicBool::new(false));
        mutex.put(give(HeldSharedMutex { guard, is_held, lock }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mutex_lock(
    mutex: Passed<HeldSharedMutex>,
    until: Passed<timespec>,
) -> Code {
    wait(|| mutex.get()?.lock(deadline::named_or_never(&until)?))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mutex_unlock(mutex: Passed<HeldSharedMutex>) -> Code {
    answer(|| mutex.get()?.guard().map(drop))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mutex_consistent(mutex: Passed<HeldSharedMutex>) -> Code {
    answer(|| {
        let mutex = mutex.get()?;
        if !mutex.is_held.load(Ordering::Relaxed) {
            return Err(libc::EPERM);
        }
        mutex.lock.clear_poison();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_shared_mutex_close(mutex: Passed<HeldSharedMutex>) -> Code {
    answer(|| match mutex.get()?.is_held.load(Ordering::Relaxed) {
        true => Err(libc::EBUSY),
        false => mutex.take().map(drop),
    })
}
