//! The locks of `daiko::sync`.

use std::time::Duration;

use daiko::sync::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore,
};

use crate::experiments::costs::locks::{self, Pair};

/// No measurement panics with a lock held.
const POISONED: &str = "no holder panics";

impl locks::TestedMutex for Mutex<u64> {
    type Guard<'a> = MutexGuard<'a, u64>;

    #[inline]
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.lock().expect(POISONED)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, u64>> {
        self.try_lock().ok()
    }
}

impl locks::TestedCondvar<Mutex<u64>> for Condvar {
    #[inline(always)]
    fn wait<'a>(&'a self, guard: MutexGuard<'a, u64>) -> MutexGuard<'a, u64> {
        self.wait(guard).expect(POISONED)
    }

    #[inline]
    fn notify_one(&self) {
        self.notify_one();
    }
}

impl locks::TestedRwLock for RwLock<Pair> {
    type Read<'a> = RwLockReadGuard<'a, Pair>;
    type Write<'a> = RwLockWriteGuard<'a, Pair>;

    #[inline]
    fn read(&self) -> RwLockReadGuard<'_, Pair> {
        self.read().expect(POISONED)
    }

    #[inline]
    fn write(&self) -> RwLockWriteGuard<'_, Pair> {
        self.write().expect(POISONED)
    }
}

impl locks::TestedSemaphore for Semaphore {
    fn holding(permits: u32) -> Self {
        Self::new(permits)
    }

    #[inline]
    fn acquire(&self) {
        self.acquire().forget();
    }

    fn try_acquire(&self) -> bool {
        self.try_acquire(1).map(|permit| permit.forget()).is_some()
    }

    fn acquire_within(&self, timeout: Duration) -> bool {
        self.acquire_timeout(1, timeout).map(|permit| permit.forget()).is_ok()
    }

    #[inline]
    fn release(&self) {
        self.add_permits(1);
    }
}
