//! A lock between threads or processes, and a counting latch.
//!
//! The locks of `std` use private futexes, which are invisible to other processes. This lock guards
//! data that workers share off their fast paths. Its word names the holder: a process that learns
//! of the holder's death can tell which locks the holder has left locked. Once a program has asked
//! for it by [`inherit_from_the_dead`], a waiter that sleeps for long checks whether the holder
//! lives and takes the place of a dead one. The protocol of the word is `core::futex`; here are its
//! system calls.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::time::Instant;

use daiko_core::futex::{Freed, FutexWait, LockWord, Slept};

use crate::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::clock;
use crate::futex::{self, Scope, WaitEnd};
use crate::thread;

/// Stands for the holder of a private lock: its thread id is never asked for.
const PRIVATE_HOLDER: u32 = 1;
/// Sleep of a waiter between two checks that the holder lives, if it may be in another process.
const PATIENCE_NS: u64 = 5_000_000;

/// True once shared locks of dead threads are taken over.
static INHERITS: AtomicBool = AtomicBool::new(false);

/// Lets waiters of this process, and of children that are forked from here on, take shared locks
/// over from threads that have died. For a program whose processes may be killed.
///
/// # Safety
///
/// From here on, no guard of a shared lock is leaked. Otherwise a reference to its value could
/// outlive the thread that took the lock, and the next holder would have the value as well.
pub unsafe fn inherit_from_the_dead() {
    // Relaxed: a waiter that does not see it yet looks again.
    INHERITS.store(true, Ordering::Relaxed);
}

/// A value that one thread at a time may use, within one process or across several.
///
/// The lock has no poison. A shared lock may be [taken over](inherit_from_the_dead) from a thread
/// that has died, so its value must be consistent after each store.
///
/// # Examples
///
/// ```
/// use daiko_sys::{Scope, lock::Lock};
///
/// let lock = Lock::new(Scope::Shared, 1);
/// *lock.lock() += 1;
/// assert_eq!(*lock.lock(), 2);
/// ```
pub struct Lock<T> {
    word: LockWord,
    scope: Scope,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder of the lock reaches the value, and there is one holder at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// Creates a free lock around `value`, for the threads of one process or of all that map it.
    pub const fn new(scope: Scope, value: T) -> Self {
        Self { word: LockWord::new(), scope, value: UnsafeCell::new(value) }
    }

    /// Takes the lock. Blocks the thread while another thread holds it.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        let me = self.me();
        if !self.word.try_take(me) {
            self.lock_slow(me);
        }
        self.guard()
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        self.word.try_take(self.me()).then(|| self.guard())
    }

    /// Returns the value. The exclusive borrow excludes all other users.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// Returns the id of the thread that held the lock a moment ago. Meaningful for shared locks
    /// only.
    pub fn holder(&self) -> Option<u32> {
        self.word.holder()
    }

    #[inline]
    fn me(&self) -> u32 {
        match self.scope {
            Scope::Private => PRIVATE_HOLDER,
            Scope::Shared => thread::cached_id(),
        }
    }

    #[cold]
    fn lock_slow(&self, me: u32) {
        self.word.take_slow(me, &Calls(self.scope));
    }

    fn guard(&self) -> Guard<'_, T> {
        Guard { lock: self, not_send: PhantomData }
    }
}

/// The system calls of a waiter.
struct Calls(Scope);

impl FutexWait for Calls {
    fn sleep(&self, word: &AtomicU32, expected: u32) -> Slept {
        let patience = (self.0 == Scope::Shared).then(|| clock::monotonic_ns() + PATIENCE_NS);
        match futex::wait_through_signals(word, expected, patience, self.0) {
            WaitEnd::TimedOut => Slept::TimedOut,
            WaitEnd::Woken | WaitEnd::Changed | WaitEnd::Interrupted => Slept::Looks,
        }
    }

    fn is_dead(&self, holder: u32) -> bool {
        // Relaxed: as in `inherit_from_the_dead`.
        INHERITS.load(Ordering::Relaxed) && !thread::exists(holder)
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("holder", &self.holder()).finish_non_exhaustive()
    }
}

/// The right to use the value of a [`Lock`]; dropping it frees the lock.
#[must_use]
pub struct Guard<'l, T> {
    lock: &'l Lock<T>,
    not_send: PhantomData<*const ()>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and the guard borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let (word, scope) = (ptr::from_ref(self.lock.word.word()), self.lock.scope);
        if self.lock.word.free() == Freed::Waited {
            futex::wake_addr(word, 1, scope);
        }
    }
}

/// A count that only rises, and that threads of one process or of several can wait for.
///
/// # Examples
///
/// ```
/// use daiko_sys::{Scope, lock::Tally};
/// use std::time::{Duration, Instant};
///
/// let ended = Tally::new(Scope::Private);
/// assert!(!ended.wait(1, Some(Instant::now() + Duration::from_millis(1))));
/// ended.add();
/// assert!(ended.wait(1, None));
/// ```
#[derive(Debug)]
pub struct Tally {
    count: AtomicU32,
    scope: Scope,
}

impl Tally {
    /// Creates a tally with a count of 0.
    pub const fn new(scope: Scope) -> Self {
        Self { count: AtomicU32::new(0), scope }
    }

    /// Adds 1. The tally may be gone once the count reaches the value that its owner waits for.
    pub fn add(&self) {
        let (word, scope) = (&raw const self.count, self.scope);
        // Release: pairs with the Acquire in `get`.
        self.count.fetch_add(1, Ordering::Release);
        futex::wake_addr(word, u32::MAX, scope);
    }

    /// Returns the count. All that happened before each counted [`add`](Self::add) is visible.
    pub fn get(&self) -> u32 {
        // Acquire: pairs with the Release in `add`.
        self.count.load(Ordering::Acquire)
    }

    /// Waits until the count is at least `least`, but not beyond `until`. Returns true if it is.
    pub fn wait(&self, least: u32, until: Option<Instant>) -> bool {
        let due_ns = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            clock::monotonic_ns().saturating_add(left.as_nanos() as u64)
        });
        loop {
            let count = self.get();
            let is_over = due_ns.is_some_and(|due| due <= clock::monotonic_ns());
            if count >= least || is_over {
                return count >= least;
            }
            let _ = futex::wait(&self.count, count, due_ns, self.scope);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::child;

    #[test]
    fn one_at_a_time_has_the_value() {
        for scope in [Scope::Private, Scope::Shared] {
            let lock = Lock::new(scope, 0_u64);
            std::thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| {
                        for _ in 0..20_000 {
                            let mut value = lock.lock();
                            let seen = *value;
                            std::hint::black_box(&mut value);
                            *value = seen + 1;
                        }
                    });
                }
            });
            assert_eq!(*lock.lock(), 80_000);
        }
    }

    #[test]
    fn a_shared_lock_names_its_holder() {
        let lock = Lock::new(Scope::Shared, ());
        let held = lock.lock();
        assert_eq!(lock.holder(), Some(thread::id()));
        assert!(lock.try_lock().is_none());
        drop(held);
        assert_eq!(lock.holder(), None);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn a_sleeper_for_a_lock_gets_it() {
        for scope in [Scope::Private, Scope::Shared] {
            let lock = Lock::new(scope, 0);
            let mut held = lock.lock();
            std::thread::scope(|threads| {
                let sleepers: [_; 2] = std::array::from_fn(|_| threads.spawn(|| *lock.lock() += 1));
                while !lock.word.is_waited_for() {
                    std::thread::yield_now();
                }
                *held += 1;
                drop(held);
                sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
            });
            assert_eq!(*lock.lock(), 3);
        }
    }

    #[test]
    fn a_dead_holder_is_inherited_by_those_that_asked_for_it() {
        let name = "lock::tests::a_dead_holder_is_inherited_by_those_that_asked_for_it";
        child::in_child_well(name, || {
            let lock = Lock::new(Scope::Shared, 7);
            let dead = std::thread::scope(|threads| {
                let holder = threads.spawn(|| {
                    std::mem::forget(lock.lock());
                    thread::id()
                });
                holder.join().unwrap()
            });
            assert_eq!(lock.holder(), Some(dead));
            // The kernel may name the thread for a moment after its end was seen.
            while thread::exists(dead) {
                std::thread::yield_now();
            }
            // A leaked guard lends the value for as long as the lock lives, to any thread.
            assert!(!Calls(Scope::Shared).is_dead(dead));
            // SAFETY: the guard is forgotten, but its value is not borrowed any more.
            unsafe { inherit_from_the_dead() };
            assert_eq!(*lock.lock(), 7);
            assert_eq!(lock.holder(), None);
        });
    }

    #[test]
    fn a_tally_is_waited_for() {
        for scope in [Scope::Private, Scope::Shared] {
            let tally = Tally::new(scope);
            std::thread::scope(|threads| {
                let waiter = threads.spawn(|| tally.wait(2, None));
                tally.add();
                assert!(!tally.wait(2, Some(Instant::now())));
                tally.add();
                assert!(waiter.join().unwrap());
            });
        }
    }
}
