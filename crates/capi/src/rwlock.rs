//! `daiko_rwlock`.

use std::mem;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU8, Ordering};

use daiko::sync::{RwLock, RwLockWriteGuard, TimedLockError, TryLockError};
use libc::timespec;

use crate::answer::{answer, wait};
use crate::deadline;
use crate::pointer::{Code, OutPlace, Passed};

/// `daiko_rwlock`: a lock, and the record of the writer's guard while a writer holds it.
#[repr(C, align(8))]
pub(crate) struct EmbeddedRwLock {
    lock: RwLock<()>,
    /// The record of the writer's guard, and `HELD`; 0: no writer holds the lock. The writer writes
    /// it; any thread may read it.
    record: AtomicU8,
    spare: [u8; 23],
}

const _: () = assert!(size_of::<EmbeddedRwLock>() == 48);

/// The bit of a record that is there.
const HELD: u8 = 1 << 7;

impl EmbeddedRwLock {
    fn keep(&self, guard: RwLockWriteGuard<'_, ()>) {
        // Relaxed: the lock orders it for the next holder.
        self.record.store(guard.into_record() | HELD, Ordering::Relaxed);
    }
}

/// Returns the guard, or the code that there is none. Marks of panics have no meaning for C.
fn timed<G>(result: Result<G, TimedLockError<G>>) -> Result<G, Code> {
    match result {
        Ok(guard) => Ok(guard),
        Err(TimedLockError::Poisoned(error)) => Ok(error.into_inner()),
        Err(TimedLockError::TimedOut) => Err(libc::ETIMEDOUT),
    }
}

/// Returns the guard, or the code that there is none, as [`timed`] does.
fn tried<G>(result: Result<G, TryLockError<G>>) -> Result<G, Code> {
    match result {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(error)) => Ok(error.into_inner()),
        Err(TryLockError::WouldBlock) => Err(libc::EBUSY),
    }
}

#[unsafe(no_mangle)]
extern "C" fn daiko_rwlock_init(lock: OutPlace<EmbeddedRwLock>) -> Code {
    answer(|| {
        lock.put(EmbeddedRwLock { lock: RwLock::new(()), record: AtomicU8::new(0), spare: [0; 23] })
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_rwlock_read(lock: Passed<EmbeddedRwLock>) -> Code {
    wait(|| {
        mem::forget(lock.get()?.lock.read().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_rwlock_read_until(
    lock: Passed<EmbeddedRwLock>,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        let deadline = deadline::named(&until)?;
        mem::forget(timed(lock.get()?.lock.read_timeout(deadline))?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_rwlock_tryread(lock: Passed<EmbeddedRwLock>) -> Code {
    answer(|| {
        mem::forget(tried(lock.get()?.lock.try_read())?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_rwlock_write(lock: Passed<EmbeddedRwLock>) -> Code {
    wait(|| {
        let lock = lock.get()?;
        lock.keep(lock.lock.write().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_rwlock_write_until(
    lock: Passed<EmbeddedRwLock>,
    until: Passed<timespec>,
) -> Code {
    wait(|| {
        let (lock, deadline) = (lock.get()?, deadline::named(&until)?);
        lock.keep(timed(lock.lock.write_timeout(deadline))?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_rwlock_trywrite(lock: Passed<EmbeddedRwLock>) -> Code {
    answer(|| {
        let lock = lock.get()?;
        lock.keep(tried(lock.lock.try_write())?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn daiko_rwlock_unlock(lock: Passed<EmbeddedRwLock>) -> Code {
    answer(|| {
        let lock = lock.get()?;
        // Relaxed: as in `keep`. A reader holds the lock against writers, so it finds 0.
        let record = lock.record.load(Ordering::Relaxed);
        if lock.lock.is_free() {
            return Err(libc::EPERM);
        }
        if record & HELD == 0 {
            // SAFETY: by `daiko.h`, the caller holds the lock, and no writer does: it has forgotten
            // the guard of a reader, and unlocks once for each.
            drop(unsafe { lock.lock.read_guard_of() });
        } else {
            lock.record.store(0, Ordering::Relaxed);
            // SAFETY: by `daiko.h`, the caller holds the lock: `keep` has taken its guard apart.
            drop(unsafe { lock.lock.write_guard_of(record & !HELD) });
        }
        Ok(())
    })
}
