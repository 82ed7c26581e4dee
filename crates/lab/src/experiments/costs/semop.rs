//! System V semaphores as mutexes between processes. P2 locks by them, as its virtual processors
//! are processes. Each call is a system call, whether or not another process contends for the lock.
//!
//! The semaphores belong to the system rather than to a process: a process that is killed leaves
//! its set behind, and `ipcrm` removes it.

use std::cell::UnsafeCell;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::calls::{ARRAY, PaddedMutex, lock_each, unlock_each};
use super::item::{CostMethod, Item};
use super::locks;
use crate::kit::Failure;

pub(super) const METHOD: CostMethod = CostMethod::new(
    "semop",
    &[&[
        Item::of("mutex-lock", |effort| lock_each(&mutexes()?, effort)),
        Item::of("mutex-unlock", |effort| unlock_each(&mutexes()?, effort)),
    ]],
);

/// Creates free mutexes from one set of semaphores.
fn mutexes() -> Result<Vec<PaddedMutex<SemopMutex>>, Failure> {
    let set = Arc::new(Set::new(ARRAY as u16)?);
    let mutex = |number| SemopMutex { set: Arc::clone(&set), number, value: UnsafeCell::new(0) };
    Ok((0..ARRAY as u16).map(|number| PaddedMutex(mutex(number))).collect())
}

/// A set of semaphores, removed when it is dropped.
struct Set(i32);

impl Set {
    /// Creates a set of this many semaphores with one permit each.
    fn new(count: u16) -> Result<Self, Failure> {
        // SAFETY: no memory is passed.
        let id = unsafe { libc::semget(libc::IPC_PRIVATE, i32::from(count), 0o600) };
        if id == -1 {
            return Err(refused(io::Error::last_os_error()));
        }
        let set = Self(id);
        let permits = vec![1_u16; usize::from(count)];
        // SAFETY: SETALL reads as many numbers as the set has semaphores.
        match unsafe { libc::semctl(id, 0, libc::SETALL, permits.as_ptr()) } {
            -1 => Err(refused(io::Error::last_os_error())),
            _ => Ok(set),
        }
    }

    /// Adds `change` to the permits of semaphore `number`, waiting until there are enough.
    #[inline]
    fn change(&self, number: u16, change: i16, flags: i32) -> io::Result<()> {
        let mut step = libc::sembuf { sem_num: number, sem_op: change, sem_flg: flags as i16 };
        loop {
            // SAFETY: one step is passed, valid for reads and writes.
            if unsafe { libc::semop(self.0, &raw mut step, 1) } == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        // SAFETY: no memory is passed.
        unsafe { libc::semctl(self.0, 0, libc::IPC_RMID) };
    }
}

/// Returns the failure, with a remedy, for a system that lacks semaphores or has none free.
fn refused(error: io::Error) -> Failure {
    match error.raw_os_error() {
        Some(libc::ENOSPC) => Failure::Limit(
            "all System V semaphores are in use: `ipcs -s` lists them, `ipcrm` removes left-over sets, \
             and kernel.sem allows more"
                .into(),
        ),
        Some(libc::ENOSYS) => {
            Failure::Unavailable("the kernel has no System V semaphores: it is built without SYSVIPC".into())
        }
        _ => Failure::Unavailable(format!("System V semaphores are refused: {error}")),
    }
}

/// A mutex by one semaphore, with one permit for the holder.
struct SemopMutex {
    set: Arc<Set>,
    number: u16,
    value: UnsafeCell<u64>,
}

// SAFETY: only the holder of the semaphore's single permit accesses the value.
unsafe impl Sync for SemopMutex {}

impl locks::TestedMutex for SemopMutex {
    type Guard<'a> = Guard<'a>;

    #[inline]
    fn lock(&self) -> Guard<'_> {
        self.set.change(self.number, -1, 0).expect("the set is there");
        Guard(self)
    }

    fn try_lock(&self) -> Option<Guard<'_>> {
        self.set.change(self.number, -1, libc::IPC_NOWAIT).ok().map(|()| Guard(self))
    }
}

struct Guard<'a>(&'a SemopMutex);

impl Deref for Guard<'_> {
    type Target = u64;

    fn deref(&self) -> &u64 {
        // SAFETY: this guard holds the permit.
        unsafe { &*self.0.value.get() }
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut u64 {
        // SAFETY: this guard holds the permit and is borrowed exclusively.
        unsafe { &mut *self.0.value.get() }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.set.change(self.0.number, 1, 0).expect("the set is there");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_removed_with_its_last_mutex() {
        let mut mutexes = mutexes().expect("semaphores");
        let id = mutexes[0].0.set.0;
        // SAFETY: no memory is passed.
        let value = || unsafe { libc::semctl(id, 0, libc::GETVAL) };
        assert_eq!(value(), 1);
        mutexes.truncate(1);
        assert_eq!(value(), 1);
        drop(mutexes);
        assert_eq!((value(), io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EINVAL)));
    }

    #[test]
    fn a_refused_call_is_no_fault() {
        let told = |number| refused(io::Error::from_raw_os_error(number));
        assert!(matches!(told(libc::ENOSPC), Failure::Limit(line) if line.contains("ipcrm")));
        assert!(
            matches!(told(libc::ENOSYS), Failure::Unavailable(line) if line.contains("SYSVIPC"))
        );
        assert!(matches!(told(libc::EPERM), Failure::Unavailable(_)));
    }
}
