//! `parking_lot`'s locks on kernel threads.

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use super::item::{CostMethod, Item};
use super::locks::{self, Pair};
use super::threads::{KernelThreads, on_one_cpu};
use super::{blocking, crowd};

pub(super) const METHOD: CostMethod = CostMethod::new(
    "parking_lot",
    &[
        &blocking::locks::<KernelThreads, Mutex<u64>, Condvar>(on_one_cpu),
        &[
            Item::of_many("mutex-contended", crowd::mutex::<KernelThreads, Mutex<u64>>),
            Item::of_many("rwlock-contended", crowd::rwlock::<KernelThreads, RwLock<Pair>>),
        ],
    ],
);

impl locks::TestedCondvar<Mutex<u64>> for Condvar {
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
