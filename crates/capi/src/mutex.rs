//! `daiko_mutex`.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU8, Ordering};

use daiko::sync::{Mutex, MutexGuard, TimedLockError, TryLockError};
use libc::timespec;

use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed};

/// `daiko_mutex`: a mutex, and the record of its guard while it is held.
#[repr(C, align(8))]
pub(crate) struct EmbeddedMutex {
    lock: Mutex<()>,
    /// The record of the holder's guard, and `HELD`; 0: free. The holder writes it; any thread may
    /// read it, to find that it is not the holder.
    record: AtomicU8,
    /// Room for the owner's name.
    spare: [u8; 15],
}

const _: () = assert!(size_of::<EmbeddedMutex>() == 32);

/// The bit of a record that is there.
const HELD: u8 = 1 << 7;

impl EmbeddedMutex {
    const fn new() -> Self {
        EmbeddedMutex { lock: Mutex::new(()), record: AtomicU8::new(0), spare: [0; 15] }
    }

    /// Keeps the guard of the caller, until it is [taken](Self::guard).
    pub(crate) fn keep(&self, guard: MutexGuard<'_, ()>) {
        // Relaxed: the lock orders it for the next holder.
        self.record.store(guard.into_record() | HELD, Ordering::Relaxed);
    }

    /// Takes the guard of the caller.
    ///
    /// # Errors
    ///
    /// `EPERM` if the mutex is not held.
    pub(crate) fn guard(&self) -> Result<MutexGuard<'_, ()>, Code> {
        // Relaxed: as in `keep`.
        let record = self.record.load(Ordering::Relaxed);
        if record & HELD == 0 {
            return Err(libc::EPERM);
        }
        self.record.store(0, Ordering::Relaxed);
        // SAFETY: by `daiko.h`, the caller holds the mutex: `keep` has taken its guard apart.
        Ok(unsafe { self.lock.guard_of(record & !HELD) })
    }

    /// Locks for the caller, which may have to wait.
    pub(crate) fn lock(&self) {
        // No code of C unwinds while it holds the mutex, so a mark of that has no meaning.
        self.keep(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_mutex_init(mutex: OutPlace<EmbeddedMutex>) -> Code {
    answer(|| mutex.put(EmbeddedMutex::new()))
}

#[unsafe(no_mangle)]
extern "C" fn daiko_mutex_destroy(mutex: Passed<EmbeddedMutex>) -> Code {
    answer(|| match mutex.get()?.record.load(Ordering::Relaxed) & HELD {
        0 => Ok(()),
        _ => Err(libc::EBUSY),
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_mutex_lock(mutex: Passed<EmbeddedMutex>) -> Code {
    wait(|| {
        mutex.get()?.lock();
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_mutex_lock_until(
    mutex: Passed<EmbeddedMutex>,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        let (mutex, deadline) = (mutex.get()?, deadline::named(&until)?);
        match mutex.lock.lock_timeout(deadline) {
            Ok(guard) => mutex.keep(guard),
            Err(TimedLockError::Poisoned(error)) => mutex.keep(error.into_inner()),
            Err(TimedLockError::TimedOut) => return Err(libc::ETIMEDOUT),
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_mutex_trylock(mutex: Passed<EmbeddedMutex>) -> Code {
    answer(|| {
        let mutex = mutex.get()?;
        match mutex.lock.try_lock() {
            Ok(guard) => mutex.keep(guard),
            Err(TryLockError::Poisoned(error)) => mutex.keep(error.into_inner()),
            Err(TryLockError::WouldBlock) => return Err(libc::EBUSY),
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_mutex_unlock(mutex: Passed<EmbeddedMutex>) -> Code {
    answer(|| mutex.get()?.guard().map(drop))
}
