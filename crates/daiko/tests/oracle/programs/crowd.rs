//! Locks, a semaphore and a `Once`, used by many tasks at the same time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use super::library::{
    self, Mutex, MutexGuard, Once, RwLock, RwLockWriteGuard, Semaphore, TryLockError,
};
use super::panic_with;
use crate::plan::{Act, Crowd, CrowdEnd, MUTEXES, PERMITS};

pub(crate) fn run(crowd: &Crowd) -> CrowdEnd {
    let shared = Arc::new(Shared::new(crowd));
    let tasks = crowd.tasks.iter().map(|(place, acts)| {
        let (shared, acts) = (shared.clone(), acts.clone());
        let task = move || acts.into_iter().for_each(|act| shared.act(act));
        (*place, Box::new(task) as Box<dyn FnOnce() + Send>)
    });
    library::together(crowd.workers, tasks.collect());
    CrowdEnd {
        values: shared.mutexes.each_ref().map(|mutex| *lock(mutex)),
        poisoned: shared.mutexes.each_ref().map(Mutex::is_poisoned),
        permits: shared.semaphore.available_permits(),
        written: *shared.written.read().unwrap(),
        done: shared.done.load(Ordering::Relaxed),
    }
}

struct Shared {
    mutexes: [Mutex<i64>; MUTEXES],
    semaphore: Semaphore,
    /// The number of permits in use.
    at_work: AtomicU32,
    /// The most permits that exist at any time.
    most: u32,
    written: RwLock<i64>,
    once: Once,
    /// The number of times that the closure of the `Once` ran.
    done: AtomicU32,
}

impl Shared {
    fn new(crowd: &Crowd) -> Self {
        let made = |act: &Act| if let Act::Exchange(count) = act { *count } else { 0 };
        let made = crowd.tasks.iter().flat_map(|(_, acts)| acts).map(made).sum::<u32>();
        Shared {
            mutexes: [const { Mutex::new(0) }; MUTEXES],
            semaphore: Semaphore::new(PERMITS),
            at_work: AtomicU32::new(0),
            most: PERMITS + made,
            written: RwLock::new(0),
            once: Once::new(),
            done: AtomicU32::new(0),
        }
    }

    fn act(&self, act: Act) {
        match act {
            Act::Pause => library::pause(),
            Act::Add(i, amount) => *lock(&self.mutexes[i]) += amount,
            Act::TryAdd(i, amount) => *try_lock(&self.mutexes[i]) += amount,
            Act::AddSlowly(i, amount) => add_slowly(&mut lock(&self.mutexes[i]), amount),
            Act::Move(amount) => {
                let [mut from, mut to] = self.mutexes.each_ref().map(lock);
                *from -= amount;
                *to += amount;
            }
            Act::Panic(i) => panic_with(lock(&self.mutexes[i])),
            Act::Work(count) => self.work(count),
            Act::Exchange(count) => {
                self.semaphore.add_permits(count);
                self.semaphore.acquire_many(count).forget();
            }
            Act::Read => assert_still(&self.written.read().unwrap()),
            Act::Write(amount) => add_slowly(&mut self.written.write().unwrap(), amount),
            Act::Downgrade(amount) => {
                let mut writer = self.written.write().unwrap();
                *writer += amount;
                let expected = *writer;
                let reader = RwLockWriteGuard::downgrade(writer);
                assert_eq!(*reader, expected);
                assert_still(&reader);
            }
            Act::Once => {
                self.once.call_once(|| {
                    library::pause();
                    self.done.fetch_add(1, Ordering::Relaxed);
                });
                assert_eq!(self.done.load(Ordering::Relaxed), 1);
            }
        }
    }

    fn work(&self, count: u32) {
        let permit = self.semaphore.acquire_many(count);
        let at_work = self.at_work.fetch_add(count, Ordering::Relaxed) + count;
        assert!(at_work <= self.most, "{at_work} permits are had, of {}", self.most);
        library::pause();
        self.at_work.fetch_sub(count, Ordering::Relaxed);
        drop(permit);
    }
}

/// Reads long before it writes.
fn add_slowly(value: &mut i64, amount: i64) {
    let before = *value;
    library::pause();
    *value = before + amount;
}

/// Checks that no task writes while another reads.
fn assert_still(value: &i64) {
    let before = *value;
    library::pause();
    assert_eq!(*value, before);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(error)) => error.into_inner(),
        Err(TryLockError::WouldBlock) => lock(mutex),
    }
}
