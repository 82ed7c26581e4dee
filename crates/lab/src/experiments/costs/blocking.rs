//! Measurement items shared by all methods with blocking threads.

use super::{
    calls,
    create::{self, Create},
    item::{
        CREATE, CREATE_JOIN, FORK_JOIN, Item, JOIN, MUTEX, MUTEX_LOCK, MUTEX_UNLOCK, SEMAPHORE,
        SWITCH_CONDVAR, SWITCH_MUTEX, SWITCH_SEMAPHORE, Within, YIELD,
    },
    locks::{Condvar, Mutex, Semaphore},
    switch::{ByCondvar, ByMutex, BySemaphore, switch},
    threads::Threads,
    turn::yield_pair,
};

/// Calls of a mutex that no other thread wants, and switches by it and its condition variable.
pub(super) const fn locks<T, M, C>(within: Within) -> [Item; 5]
where
    T: Threads,
    M: Mutex + Default,
    C: Condvar<M>,
{
    [
        Item::within(within, MUTEX, calls::mutex::<M>),
        Item::within(within, MUTEX_LOCK, calls::mutex_lock::<M>),
        Item::within(within, MUTEX_UNLOCK, calls::mutex_unlock::<M>),
        Item::within(within, SWITCH_MUTEX, switch::<T, ByMutex<M>>),
        Item::within(within, SWITCH_CONDVAR, switch::<T, ByCondvar<M, C>>),
    ]
}

/// Calls of a semaphore that no other thread wants, and switches by two of them.
pub(super) const fn semaphores<T: Threads, S: Semaphore>(within: Within) -> [Item; 2] {
    [
        Item::within(within, SEMAPHORE, calls::semaphore::<S>),
        Item::within(within, SWITCH_SEMAPHORE, switch::<T, BySemaphore<S>>),
    ]
}

/// Threads that are created, joined, and yield.
pub(super) const fn threads<T: Threads, C: Create>(within: Within) -> [Item; 5] {
    [
        Item::within(within, CREATE, create::create::<C>),
        Item::within(within, JOIN, create::join::<C>),
        Item::within(within, CREATE_JOIN, create::create_join::<C>),
        Item::within(within, FORK_JOIN, create::fork_join::<C>),
        Item::within(within, YIELD, yield_pair::<T>),
    ]
}
