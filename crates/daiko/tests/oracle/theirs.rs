//! The library of the programs, by `std`.

use std::sync::mpsc::{self, SendError, TrySendError};
use std::thread;
use std::time::Duration;

pub(crate) use std::sync::{
    Barrier, Condvar, Mutex, MutexGuard, Once, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard,
    TryLockError,
};

use crate::plan::{Place, Room};

#[path = "programs/mod.rs"]
pub(crate) mod programs;

/// Lets other tasks run.
pub(crate) fn pause() {
    thread::yield_now();
}

/// Runs all tasks at the same time, to their end.
pub(crate) fn together(_workers: usize, tasks: Vec<(Place, Box<dyn FnOnce() + Send>)>) {
    let threads: Vec<_> = tasks.into_iter().map(|(_, task)| thread::spawn(task)).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A semaphore of a mutex and a condition variable, in the textbook form.
pub(crate) struct Semaphore {
    permits: Mutex<u32>,
    given: Condvar,
}

pub(crate) struct Permit<'s> {
    semaphore: &'s Semaphore,
    count: u32,
}

impl Semaphore {
    pub(crate) fn new(permits: u32) -> Self {
        Semaphore { permits: Mutex::new(permits), given: Condvar::new() }
    }

    pub(crate) fn acquire_many(&self, count: u32) -> Permit<'_> {
        let permits = self.permits.lock().unwrap();
        *self.given.wait_while(permits, |permits| *permits < count).unwrap() -= count;
        Permit { semaphore: self, count }
    }

    pub(crate) fn acquire_timeout(&self, count: u32, timeout: Duration) -> Result<Permit<'_>, ()> {
        let (permits, less) = (self.permits.lock().unwrap(), |permits: &mut u32| *permits < count);
        let (mut permits, waited) = self.given.wait_timeout_while(permits, timeout, less).unwrap();
        if waited.timed_out() {
            return Err(());
        }
        *permits -= count;
        Ok(Permit { semaphore: self, count })
    }

    pub(crate) fn try_acquire(&self, count: u32) -> Option<Permit<'_>> {
        self.acquire_timeout(count, Duration::ZERO).ok()
    }

    pub(crate) fn add_permits(&self, count: u32) {
        *self.permits.lock().unwrap() += count;
        self.given.notify_all();
    }

    pub(crate) fn available_permits(&self) -> u32 {
        *self.permits.lock().unwrap()
    }
}

impl Permit<'_> {
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.add_permits(self.count);
    }
}

/// A sender of a channel, bounded or not: one type, as in Daiko.
#[derive(Clone)]
pub(crate) enum Sender {
    Bounded(mpsc::SyncSender<i64>),
    Unbounded(mpsc::Sender<i64>),
}

pub(crate) type Receiver = mpsc::Receiver<i64>;

pub(crate) fn channel(room: Room) -> (Sender, Receiver) {
    match room {
        Some(room) => {
            let (sender, receiver) = mpsc::sync_channel(room);
            (Sender::Bounded(sender), receiver)
        }
        None => {
            let (sender, receiver) = mpsc::channel();
            (Sender::Unbounded(sender), receiver)
        }
    }
}

impl Sender {
    pub(crate) fn send(&self, message: i64) -> Result<(), SendError<i64>> {
        match self {
            Sender::Bounded(sender) => sender.send(message),
            Sender::Unbounded(sender) => sender.send(message),
        }
    }

    pub(crate) fn try_send(&self, message: i64) -> Result<(), TrySendError<i64>> {
        match self {
            Sender::Bounded(sender) => sender.try_send(message),
            Sender::Unbounded(sender) => sender.send(message).map_err(TrySendError::from),
        }
    }
}
