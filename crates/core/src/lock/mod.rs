//! The lock of a wait queue: one word that names its holder, held for a few stores.

use std::marker::PhantomData;
use std::num::NonZeroU32;

use crate::atomic::{AtomicU32, Ordering, const_fn, spin_loop, unless_weakened};

#[cfg(all(test, loom))]
mod model;

/// Number of looks at a held lock before a contender relaxes.
const LOOKS: u32 = 64;

/// A party that takes queue locks: a worker, a monitor thread, a thread that is no worker.
pub trait Contender {
    /// Returns the value of the lock word while this contender holds the lock; no two contenders
    /// share it.
    fn id(&self) -> NonZeroU32;

    /// Gives the CPU to another thread, of any priority. Called repeatedly while a lock stays held
    /// longer than a few stores take: the holder must have lost its CPU.
    fn relax(&self);
}

/// A lock for the links of a queue.
///
/// ```text
/// 0 = free, !0 and !1 = held without a name, otherwise the id of the holder
/// ```
///
/// The holder makes no system call and never suspends, so waiters spin.
#[derive(Debug)]
pub struct QueueLock(AtomicU32);

/// The word of a holder that does not tell its name.
const UNNAMED: NonZeroU32 = NonZeroU32::MAX;
/// The word of a holder that tells only that it makes one change, and not several in a row.
const BRIEF: NonZeroU32 = NonZeroU32::new(u32::MAX - 1).unwrap();

/// The reason for which a lock was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// A holder that makes [one change](QueueLock::try_lock_briefly).
    Brief,
    /// Another holder.
    Other,
}

impl QueueLock {
    const_fn! {
        /// Creates a free lock.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self(AtomicU32::new(0))
        }
    }

    /// Takes the lock, for as long as the result lives.
    #[inline]
    pub fn lock(&self, by: &impl Contender) -> Held<'_> {
        self.lock_as(by.id(), by)
    }

    /// Takes the lock as [`lock`](Self::lock) does, without the holder's id. So the contender need
    /// not be asked for it.
    #[inline]
    pub fn lock_unnamed(&self, by: &impl Contender) -> Held<'_> {
        self.lock_as(UNNAMED, by)
    }

    /// Takes the lock, for one change as [`try_lock_briefly`](Self::try_lock_briefly).
    #[inline]
    pub fn lock_briefly(&self, by: &impl Contender) -> Held<'_> {
        self.lock_as(BRIEF, by)
    }

    #[inline]
    fn lock_as(&self, id: NonZeroU32, by: &impl Contender) -> Held<'_> {
        match self.try_lock_as(id) {
            Ok(held) => held,
            Err(_) => self.lock_slow(id, by),
        }
    }

    #[cold]
    fn lock_slow(&self, id: NonZeroU32, by: &impl Contender) -> Held<'_> {
        loop {
            for _ in 0..LOOKS {
                if self.holder().is_none()
                    && let Ok(held) = self.try_lock_as(id)
                {
                    return held;
                }
                spin_loop();
            }
            by.relax();
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self, by: &impl Contender) -> Option<Held<'_>> {
        self.try_lock_as(by.id()).ok()
    }

    /// Takes the lock if it is free, without the holder's id.
    #[inline(always)]
    pub fn try_lock_unnamed(&self) -> Result<Held<'_>, HeldBy> {
        self.try_lock_as(UNNAMED)
    }

    /// Takes the lock if it is free, for one change that a contender may wait for on the spot.
    #[inline(always)]
    pub fn try_lock_briefly(&self) -> Result<Held<'_>, HeldBy> {
        self.try_lock_as(BRIEF)
    }

    #[inline(always)]
    fn try_lock_as(&self, id: NonZeroU32) -> Result<Held<'_>, HeldBy> {
        // Acquire: pairs with the Release in the drop of `Held`.
        self.0
            .compare_exchange(0, id.get(), Ordering::Acquire, Ordering::Relaxed)
            .map(|_| Held { lock: self, not_send: PhantomData })
            .map_err(|word| if word == BRIEF.get() { HeldBy::Brief } else { HeldBy::Other })
    }

    /// Returns the id of the holder, a moment ago.
    pub fn holder(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.0.load(Ordering::Relaxed))
    }

    /// Makes loom fail unless the caller may reuse the lock's memory.
    #[cfg(all(test, loom))]
    pub(crate) fn reclaim(&self) {
        // SAFETY: loom checks that nothing is stored at the same time.
        let _ = unsafe { self.0.unsync_load() };
    }
}

/// A queue lock that is held; dropping it frees the lock.
#[derive(Debug)]
#[must_use]
pub struct Held<'l> {
    lock: &'l QueueLock,
    not_send: PhantomData<*const ()>,
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `try_lock`.
        self.lock.0.store(0, unless_weakened!("lock-release", Ordering::Release));
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! A contender for tests and models.

    use super::*;

    pub(crate) struct Tester(pub(crate) u32);

    impl Contender for Tester {
        fn id(&self) -> NonZeroU32 {
            NonZeroU32::new(self.0).unwrap()
        }

        fn relax(&self) {
            #[cfg(loom)]
            loom::thread::yield_now();
            #[cfg(shuttle)]
            shuttle::thread::yield_now();
            #[cfg(not(any(loom, shuttle)))]
            std::thread::yield_now();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::cell::Cell;

    use super::{testing::Tester, *};

    #[test]
    fn the_word_names_the_holder() {
        let lock = QueueLock::new();
        let held = lock.try_lock(&Tester(7)).unwrap();
        assert_eq!(lock.holder(), NonZeroU32::new(7));
        assert!(lock.try_lock(&Tester(8)).is_none());
        drop(held);
        assert_eq!(lock.holder(), None);
        assert!(lock.try_lock(&Tester(8)).is_some());
        let held = lock.lock_unnamed(&Tester(9));
        assert!(lock.holder().is_some_and(|id| id != Tester(9).id()));
        assert_eq!(lock.try_lock_unnamed().err(), Some(HeldBy::Other));
        drop(held);
        let held = lock.try_lock_briefly().unwrap();
        assert_eq!(lock.try_lock_unnamed().err(), Some(HeldBy::Brief));
        drop(held);
        assert_eq!(lock.holder(), None);
    }

    #[test]
    fn a_contender_relaxes_while_the_holder_is_away() {
        struct Frees<'l>(Cell<Option<Held<'l>>>);
        impl Contender for Frees<'_> {
            fn id(&self) -> NonZeroU32 {
                NonZeroU32::MIN
            }
            fn relax(&self) {
                drop(self.0.take());
            }
        }
        let lock = QueueLock::new();
        let contender = Frees(Cell::new(Some(lock.lock(&Tester(2)))));
        drop(lock.lock(&contender));
        assert!(contender.0.take().is_none());
    }
}
