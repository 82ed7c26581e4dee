//! The holders of locks and of one-time initializations, while they are tracked.
//!
//! One table for the process, as locks belong to no runtime. It neither allocates nor grows: a lock
//! has a set of slots by its address, and a lock that finds no free slot there is not known.

use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};

use daiko_sys::thread;

use super::tracking::is_tracking;
use crate::worker;

/// Number of locks of one set that are known at a time.
const SLOTS: usize = 8;
const SETS: usize = 512;

static LOCKS: HeldLocks = HeldLocks::new();

/// A lock with a holder.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    lock: usize,
    pub by: Who,
    pub(super) at: &'static Location<'static>,
}

/// A holder of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The fiber with the control block at this address.
    Fiber(usize),
    /// The thread with this id of the kernel, while it runs no fiber.
    Thread(u32),
}

impl Who {
    fn calls() -> Who {
        match worker::try_caller() {
            Some((_, fiber)) => Who::Fiber(std::ptr::from_ref(fiber).addr()),
            None => Who::Thread(thread::id()),
        }
    }
}

/// Notes, if locks are tracked, that the caller has taken the lock at this address, and is its only
/// holder. Returns true if noted: then [`freed`] must be called before the lock is free.
#[inline]
#[track_caller]
#[must_use = "a note has to be removed"]
pub fn taken(lock: usize) -> bool {
    let noted = is_tracking();
    if noted {
        note(lock, Location::caller());
    }
    noted
}

/// Removes the note of [`taken`]. Any holder of the lock may call it.
#[cold]
#[inline(never)]
pub fn freed(lock: usize) {
    LOCKS.strike_out(lock);
}

/// Keeps the caller from waiting for itself, if locks are tracked.
///
/// # Panics
///
/// If the caller holds the lock at this address; the panic names the lock.
#[track_caller]
pub fn assert_not_held(lock: usize, operation: &str) {
    if is_tracking()
        && let Some(held) = holder(lock)
        && held.by == Who::calls()
    {
        panic!("daiko: {operation} was locked again by its holder, which locked it at {}", held.at);
    }
}

#[cold]
#[inline(never)]
fn note(lock: usize, at: &'static Location<'static>) {
    LOCKS.note(Held { lock, by: Who::calls(), at });
}

/// Returns the holder of the lock at this address, as far as that is known.
pub fn holder(lock: usize) -> Option<Held> {
    LOCKS.holder(lock)
}

type Set = [Option<Held>; SLOTS];

struct HeldLocks([Mutex<Set>; SETS]);

impl HeldLocks {
    const fn new() -> Self {
        HeldLocks([const { Mutex::new([None; SLOTS]) }; SETS])
    }

    fn note(&self, held: Held) {
        let mut set = self.set_of(held.lock);
        // A forgotten guard leaves its slot behind, and the address may be another lock's now.
        let known = set.iter().position(|slot| slot.is_some_and(|slot| slot.lock == held.lock));
        if let Some(slot) = known.or_else(|| set.iter().position(Option::is_none)) {
            set[slot] = Some(held);
        }
    }

    fn strike_out(&self, lock: usize) {
        let mut set = self.set_of(lock);
        for slot in set.iter_mut().filter(|slot| slot.is_some_and(|slot| slot.lock == lock)) {
            *slot = None;
        }
    }

    fn holder(&self, lock: usize) -> Option<Held> {
        self.set_of(lock).iter().flatten().copied().find(|held| held.lock == lock)
    }

    fn set_of(&self, lock: usize) -> MutexGuard<'_, Set> {
        // Fibonacci hashing, by the upper bits: locks lie at multiples of 8.
        let hash = (lock as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let set = &self.0[(hash >> (u64::BITS - SETS.ilog2())) as usize];
        set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an entry; `by` is the holder's number.
    fn held(lock: usize, by: u32) -> Held {
        Held { lock, by: Who::Thread(by), at: Location::caller() }
    }

    /// Returns `count` locks that fall into one set.
    fn locks_of_one_set(table: &HeldLocks, count: usize) -> Vec<usize> {
        let set = |lock| std::ptr::from_ref(&*table.set_of(lock)).addr();
        let first = set(8);
        (1..).map(|n| 8 * n).filter(|&lock| set(lock) == first).take(count).collect()
    }

    #[test]
    fn locks_are_held_until_freed_and_unknown_without_room() {
        let table = HeldLocks::new();
        let locks = locks_of_one_set(&table, SLOTS + 1);
        let known = |lock: &usize| table.holder(*lock).is_some();
        (0..).zip(&locks).for_each(|(by, &lock)| table.note(held(lock, by)));
        assert!(locks[..SLOTS].iter().all(known) && !known(&locks[SLOTS]));
        assert_eq!(table.holder(locks[3]).unwrap().by, Who::Thread(3));
        table.strike_out(locks[SLOTS]);
        table.strike_out(locks[3]);
        assert!(!known(&locks[3]));
        table.note(held(locks[SLOTS], 7));
        assert!(known(&locks[SLOTS]) && !known(&locks[3]));
        locks.iter().for_each(|&lock| table.strike_out(lock));
        assert!(!locks.iter().any(known));
    }

    #[test]
    fn a_new_holder_replaces_a_holder_that_forgot_the_lock() {
        let table = HeldLocks::new();
        table.note(held(8, 1));
        table.note(held(8, 2));
        assert_eq!(table.holder(8).unwrap().by, Who::Thread(2));
        table.strike_out(8);
        assert!(table.holder(8).is_none());
    }
}
