//! Measurement items shared by all methods with blocking threads.

use super::calls;
use super::create::{self, Create};
use super::item::{Item, Within};
use super::locks::{TestedCondvar, TestedMutex, TestedSemaphore};
use super::switch::{ByCondvar, ByMutex, BySemaphore, switch};
use super::threads::Threads;
use super::turn::yield_pair;

/// Items for a mutex without contention, and for switches by it and its condition variable.
pub(super) const fn locks<T, M, C>(within: Within) -> [Item; 5]
where
    T: Threads,
    M: TestedMutex + Default,
    C: TestedCondvar<M>,
{
    [
        Item::within(within, "mutex", calls::mutex::<M>),
        Item::within(within, "mutex-lock", calls::mutex_lock::<M>),
        Item::within(within, "mutex-unlock", calls::mutex_unlock::<M>),
        Item::within(within, "switch-mutex", switch::<T, ByMutex<M>>),
        Item::within(within, "switch-condvar", switch::<T, ByCondvar<M, C>>),
    ]
}

/// Items for a semaphore without contention, and for switches by two of them.
pub(super) const fn semaphores<T: Threads, S: TestedSemaphore>(within: Within) -> [Item; 2] {
    [
        Item::within(within, "semaphore", calls::semaphore::<S>),
        Item::within(within, "switch-semaphore", switch::<T, BySemaphore<S>>),
    ]
}

/// Items for threads that are created, joined, and yield.
pub(super) const fn threads<T: Threads, C: Create>(within: Within) -> [Item; 5] {
    [
        Item::within(within, "create", create::create::<C>),
        Item::within(within, "join", create::join::<C>),
        Item::within(within, "create-join", create::create_join::<C>),
        Item::within(within, "fork-join", create::fork_join::<C>),
        Item::within(within, "yield", yield_pair::<T>),
    ]
}
