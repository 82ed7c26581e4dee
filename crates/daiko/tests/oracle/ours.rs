//! The library of the programs, by Daiko.

use std::thread;

use daiko::sync::channel;
pub(crate) use daiko::sync::{
    Barrier, Condvar, Mutex, MutexGuard, Once, OnceLock, Permit, RwLock, RwLockReadGuard,
    RwLockWriteGuard, Semaphore, TryLockError,
};
use daiko::{Builder, JoinHandle};

use crate::plan::{Place, Room};
use crate::support::{end, migratable, workers};

pub(crate) type Sender = channel::Sender<i64>;
pub(crate) type Receiver = channel::Receiver<i64>;

pub(crate) fn channel(room: Room) -> (Sender, Receiver) {
    match room {
        Some(room) => channel::bounded(room),
        None => channel::unbounded(),
    }
}

#[path = "programs/mod.rs"]
#[allow(clippy::duplicate_mod, reason = "one text, compiled against either library")]
pub(crate) mod programs;

pub(crate) use crate::support::waits::let_others_run as pause;

/// Runs all tasks at the same time, to their end.
pub(crate) fn together(count: usize, tasks: Vec<(Place, Box<dyn FnOnce() + Send>)>) {
    let runtime = workers(count);
    let spawn = |builder, task| Task::Fiber(runtime.spawn_with(builder, task).unwrap());
    let tasks: Vec<_> = tasks
        .into_iter()
        .map(|(place, task)| match place {
            Place::Pinned => spawn(Builder::new(), task),
            Place::Migratable => spawn(migratable(), task),
            Place::Thread => Task::Thread(thread::spawn(task)),
        })
        .collect();
    tasks.into_iter().for_each(Task::join);
    end(runtime);
}

enum Task {
    Fiber(JoinHandle<()>),
    Thread(thread::JoinHandle<()>),
}

impl Task {
    fn join(self) {
        match self {
            Task::Fiber(fiber) => fiber.join().unwrap(),
            Task::Thread(thread) => thread.join().unwrap(),
        }
    }
}
