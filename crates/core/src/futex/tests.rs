//! One step after the other, with system calls of the tests' choice.

use std::cell::Cell;

use super::*;

/// The holder dies during the first sleep, or frees the lock.
struct Calls<'l> {
    lock: &'l LockWord,
    dies: bool,
    sleeps: Cell<u32>,
}

impl FutexWait for Calls<'_> {
    fn sleep(&self, word: &AtomicU32, expected: u32) -> Slept {
        assert_eq!(word.load(Ordering::Relaxed), expected);
        assert!(self.lock.is_waited_for());
        self.sleeps.set(self.sleeps.get() + 1);
        if !self.dies {
            assert_eq!(self.lock.free(), Freed::Waited);
            return Slept::Looks;
        }
        Slept::TimedOut
    }

    fn is_dead(&self, holder: u32) -> bool {
        assert_eq!(holder, 7);
        self.sleeps.get() == 2
    }
}

#[test]
fn a_free_lock_names_its_holder_and_has_no_waiter() {
    let lock = LockWord::new();
    assert!(lock.try_take(7) && !lock.try_take(8));
    assert_eq!(lock.holder(), Some(7));
    assert!(!lock.is_waited_for());
    assert_eq!(lock.free(), Freed::Unwaited);
    assert_eq!(lock.holder(), None);
}

#[test]
fn a_waiter_that_has_slept_takes_the_lock_with_the_mark() {
    let lock = LockWord::new();
    assert!(lock.try_take(7));
    let calls = Calls { lock: &lock, dies: false, sleeps: Cell::new(0) };
    lock.take_slow(8, &calls);
    assert_eq!((lock.holder(), lock.is_waited_for()), (Some(8), true));
    assert_eq!(calls.sleeps.get(), 1);
    assert_eq!(lock.free(), Freed::Waited);
}

#[test]
fn a_waiter_takes_the_lock_of_the_dead_and_not_of_the_living() {
    let lock = LockWord::new();
    assert!(lock.try_take(7));
    let calls = Calls { lock: &lock, dies: true, sleeps: Cell::new(0) };
    lock.take_slow(8, &calls);
    assert_eq!((lock.holder(), calls.sleeps.get()), (Some(8), 2));
}
