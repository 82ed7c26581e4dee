//! Interface of a method's locks, so that all methods run the same measurements.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use parking_lot::lock_api::{self, RawMutex, RawRwLock};

/// A mutex around a number, initially 0.
pub(super) trait TestedMutex: Send + Sync + 'static {
    /// Unlocks when it is dropped.
    type Guard<'a>: DerefMut<Target = u64>;

    fn lock(&self) -> Self::Guard<'_>;

    /// Locks if that is possible without waiting.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;
}

/// A condition variable for [`Mutex`] `M`. All waiters use the same mutex with it.
pub(super) trait TestedCondvar<M: TestedMutex>: Default + Send + Sync + 'static {
    /// May return without a notification.
    fn wait<'a>(&'a self, guard: M::Guard<'a>) -> M::Guard<'a>;

    fn notify_one(&self);
}

/// A counting semaphore.
pub(super) trait TestedSemaphore: Send + Sync + 'static {
    fn holding(permits: u32) -> Self;

    /// Takes a permit, after waiting for one if necessary.
    fn acquire(&self);

    /// Takes a permit if there is one. Returns whether it took one.
    fn try_acquire(&self) -> bool;

    /// Takes a permit, after waiting at most `timeout`. Returns whether it took one.
    fn acquire_within(&self, timeout: Duration) -> bool;

    /// Releases a permit.
    fn release(&self);
}

/// Two numbers that are equal whenever no writer is active.
pub(super) type Pair = [u64; 2];

/// A readers-writer lock around a [`Pair`], initially 0.
pub(super) trait TestedRwLock: Default + Send + Sync + 'static {
    /// Unlocks when it is dropped.
    type Read<'a>: Deref<Target = Pair>;
    /// Unlocks when it is dropped.
    type Write<'a>: DerefMut<Target = Pair>;

    fn read(&self) -> Self::Read<'_>;

    fn write(&self) -> Self::Write<'_>;
}

impl<R: RawMutex + Send + Sync + 'static> TestedMutex for lock_api::Mutex<R, u64> {
    type Guard<'a> = lock_api::MutexGuard<'a, R, u64>;

    #[inline]
    fn lock(&self) -> Self::Guard<'_> {
        self.lock()
    }

    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.try_lock()
    }
}

impl<R: RawRwLock + Send + Sync + 'static> TestedRwLock for lock_api::RwLock<R, Pair> {
    type Read<'a> = lock_api::RwLockReadGuard<'a, R, Pair>;
    type Write<'a> = lock_api::RwLockWriteGuard<'a, R, Pair>;

    #[inline]
    fn read(&self) -> Self::Read<'_> {
        self.read()
    }

    #[inline]
    fn write(&self) -> Self::Write<'_> {
        self.write()
    }
}

/// Locks without mutual exclusion.
#[cfg(test)]
pub(super) mod testing {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Barrier, Mutex as Safe, MutexGuard};

    use super::*;

    /// A lock that admits all callers at once. Each holder has a copy, so that the change of a
    /// second holder overwrites that of the first. With `MEET`, the first change excludes all other
    /// changes, and the next two are certain to overlap.
    pub(crate) struct Open<const MEET: bool> {
        value: Safe<Pair>,
        begun: AtomicUsize,
        first: Safe<()>,
        meeting: Barrier,
    }

    impl<const MEET: bool> Default for Open<MEET> {
        fn default() -> Self {
            let begun = AtomicUsize::new(0);
            Self { value: Safe::default(), begun, first: Safe::new(()), meeting: Barrier::new(2) }
        }
    }

    impl<const MEET: bool> Open<MEET> {
        fn value(&self) -> Pair {
            *self.value.lock().expect("no holder panics")
        }

        fn change(&self) -> Copied<'_> {
            // Relaxed: the count publishes no other data.
            let begun = self.begun.fetch_add(1, Ordering::Relaxed);
            let first = self.first.lock().expect("no holder panics");
            let first = (MEET && begun == 0).then_some(first);
            let copied = Copied { copy: self.value(), of: &self.value, first };
            if MEET && matches!(begun, 1 | 2) {
                self.meeting.wait();
            }
            copied
        }
    }

    impl<const MEET: bool> TestedMutex for Open<MEET> {
        type Guard<'a> = First<'a>;

        fn lock(&self) -> First<'_> {
            First(self.change())
        }

        fn try_lock(&self) -> Option<First<'_>> {
            Some(self.lock())
        }
    }

    impl<const MEET: bool> TestedRwLock for Open<MEET> {
        type Read<'a> = Box<Pair>;
        type Write<'a> = Copied<'a>;

        fn read(&self) -> Box<Pair> {
            drop(self.first.lock());
            Box::new(self.value())
        }

        fn write(&self) -> Copied<'_> {
            self.change()
        }
    }

    /// Never blocks a caller.
    impl<const MEET: bool> TestedSemaphore for Open<MEET> {
        fn holding(_: u32) -> Self {
            Self::default()
        }

        fn acquire(&self) {}

        fn try_acquire(&self) -> bool {
            true
        }

        fn acquire_within(&self, _: Duration) -> bool {
            true
        }

        fn release(&self) {}
    }

    /// A copy of the pair, written back when it is dropped.
    pub(crate) struct Copied<'a> {
        copy: Pair,
        of: &'a Safe<Pair>,
        /// Keeps all other holders out.
        #[expect(dead_code, reason = "is there to be dropped")]
        first: Option<MutexGuard<'a, ()>>,
    }

    impl Deref for Copied<'_> {
        type Target = Pair;

        fn deref(&self) -> &Pair {
            &self.copy
        }
    }

    impl DerefMut for Copied<'_> {
        fn deref_mut(&mut self) -> &mut Pair {
            &mut self.copy
        }
    }

    impl Drop for Copied<'_> {
        fn drop(&mut self) {
            *self.of.lock().expect("no holder panics") = self.copy;
        }
    }

    /// The first number of a pair.
    pub(crate) struct First<'a>(Copied<'a>);

    impl Deref for First<'_> {
        type Target = u64;

        fn deref(&self) -> &u64 {
            &self.0[0]
        }
    }

    impl DerefMut for First<'_> {
        fn deref_mut(&mut self) -> &mut u64 {
            &mut self.0[0]
        }
    }
}
