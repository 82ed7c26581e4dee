//! `parking_lot`'s locks on kernel threads.

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use super::{
    blocking, crowd,
    item::{CostMethod, Item, MUTEX_CONTENDED, RWLOCK_CONTENDED},
    locks::{self, Pair},
    threads::{Kernel, on_one_cpu},
};

pub(super) const METHOD: CostMethod = CostMethod::new(
    "parking_lot",
    &[
        &blocking::locks::<Kernel, Mutex<u64>, Condvar>(on_one_cpu),
        &[
            Item::of_many(MUTEX_CONTENDED, crowd::mutex::<Kernel, Mutex<u64>>),
            Item::of_many(RWLOCK_CONTENDED, crowd::rwlock::<Kernel, RwLock<Pair>>),
        ],
    ],
);

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
