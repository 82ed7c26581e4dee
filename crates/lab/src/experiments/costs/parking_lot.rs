//! `parking_lot`'s locks, on the kernel's threads.

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use super::{
    calls, crowd,
    item::{
        CostMethod, Item, MUTEX, MUTEX_CONTENDED, MUTEX_LOCK, MUTEX_UNLOCK, RWLOCK_CONTENDED,
        SWITCH_CONDVAR, SWITCH_MUTEX,
    },
    locks::{self, Pair},
    switch::{ByCondvar, ByMutex, switch},
    threads::{Kernel, on_one_cpu},
};

pub(super) const METHOD: CostMethod = CostMethod {
    name: "parking_lot",
    items: &[
        Item::of(MUTEX, |effort| on_one_cpu(calls::mutex::<Mutex<u64>>, effort)),
        Item::of(MUTEX_LOCK, |effort| on_one_cpu(calls::mutex_lock::<Mutex<u64>>, effort)),
        Item::of(MUTEX_UNLOCK, |effort| on_one_cpu(calls::mutex_unlock::<Mutex<u64>>, effort)),
        Item::of(SWITCH_MUTEX, |effort| on_one_cpu(switch::<Kernel, ByMutex<Mutex<u64>>>, effort)),
        Item::of(SWITCH_CONDVAR, |effort| {
            on_one_cpu(switch::<Kernel, ByCondvar<Mutex<u64>, Condvar>>, effort)
        }),
        Item::of_many(MUTEX_CONTENDED, crowd::mutex::<Kernel, Mutex<u64>>),
        Item::of_many(RWLOCK_CONTENDED, crowd::rwlock::<Kernel, RwLock<Pair>>),
    ],
};

impl locks::Condvar<Mutex<u64>> for Condvar {
    #[inline]
    fn wait<'a>(&'a self, mut guard: MutexGuard<'a, u64>) -> MutexGuard<'a, u64> {
        self.wait(&mut guard);
        guard
    }

    #[inline]
    fn notify_one(&self) {
        self.notify_one();
    }
}
