//! POSIX threads, by the C library's own calls.
//!
//! Where nothing is contended, all threads are bound to one CPU: where the system
//! places them they pay for moving and waking besides, and most of a create and
//! join is that.

mod channel;
mod primitives;
mod sleep;

use std::{
    ffi::c_void,
    io, ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

use self::{
    channel::{ANY, queue},
    primitives::Semaphore,
    sleep::{Posix, room_for},
};
use super::{
    calls,
    channel::CAPACITY,
    create::{self, Create, TOKEN},
    crowd, info,
    item::{
        CHANNEL, CREATE, CREATE_JOIN, CostMethod, FORK_JOIN, Item, JOIN, MUTEX, MUTEX_CONTENDED,
        MUTEX_LOCK, MUTEX_UNLOCK, RWLOCK_CONTENDED, SEMAPHORE, SLEEP_LATENESS, SWITCH_CONDVAR,
        SWITCH_MUTEX, SWITCH_SEMAPHORE, THREAD_INFO, YIELD,
    },
    locks::Pair,
    sleep::{LONG, SHORT, lateness},
    switch::{ByCondvar, ByMutex, BySemaphore, switch},
    threads::{Kernel, Threads, on_one_cpu},
    turn::yield_pair,
};
use crate::kit::{
    Effort, Failure, Sample,
    pthread::{Attributes, Condvar, Mutex, Pthread, RwLock, broken},
    thread_limits,
};

pub(super) const METHOD: CostMethod = CostMethod {
    name: "nptl",
    items: &[
        Item::of(THREAD_INFO, |effort| on_one_cpu(info::thread_local, effort)).with("of", "tls"),
        Item::of(THREAD_INFO, |effort| on_one_cpu(specific, effort)).with("of", "specific"),
        Item::of(THREAD_INFO, |effort| on_one_cpu(current, effort)).with("of", "current"),
        Item::of(MUTEX, |effort| on_one_cpu(calls::mutex::<Mutex<u64>>, effort)),
        Item::of(MUTEX_LOCK, |effort| on_one_cpu(calls::mutex_lock::<Mutex<u64>>, effort)),
        Item::of(MUTEX_UNLOCK, |effort| on_one_cpu(calls::mutex_unlock::<Mutex<u64>>, effort)),
        Item::of(SEMAPHORE, |effort| on_one_cpu(calls::semaphore::<Semaphore>, effort)),
        Item::of(SWITCH_MUTEX, |effort| on_one_cpu(switch::<Kernel, ByMutex<Mutex<u64>>>, effort)),
        Item::of(SWITCH_SEMAPHORE, |effort| {
            on_one_cpu(switch::<Kernel, BySemaphore<Semaphore>>, effort)
        }),
        Item::of(SWITCH_CONDVAR, |effort| {
            on_one_cpu(switch::<Kernel, ByCondvar<Mutex<u64>, Condvar>>, effort)
        }),
        Item::of(CREATE, |effort| on_one_cpu(create, effort)),
        Item::of(JOIN, |effort| on_one_cpu(join, effort)),
        Item::of(CREATE_JOIN, |effort| on_one_cpu(create_join, effort)),
        Item::of(FORK_JOIN, |effort| on_one_cpu(fork_join, effort)),
        Item::of(YIELD, |effort| on_one_cpu(yield_pair::<Kernel>, effort)),
        Item::of_many(MUTEX_CONTENDED, crowd::mutex::<Kernel, Mutex<u64>>),
        Item::of_many(RWLOCK_CONTENDED, crowd::rwlock::<Kernel, RwLock<Pair>>),
        Item::of(CHANNEL, queue::<CAPACITY>).with("kind", "bounded"),
        Item::of(CHANNEL, queue::<ANY>).with("kind", "unbounded"),
        Item::of_sleeps(SLEEP_LATENESS, room_for, |timers, effort| {
            on_one_cpu(move |effort| lateness::<Kernel, Posix>(SHORT, timers, effort), effort)
        })
        .with("state", "polling"),
        Item::of_sleeps(SLEEP_LATENESS, room_for, |timers, effort| {
            on_one_cpu(move |effort| lateness::<Kernel, Posix>(LONG, timers, effort), effort)
        })
        .with("state", "parked"),
    ],
};

/// Storage found by `pthread_getspecific`.
fn specific(effort: Effort) -> Result<Sample, Failure> {
    let mut key = 0;
    let mark = ptr::without_provenance_mut(info::MARK);
    // SAFETY: the key goes to a live local, and there is no destructor.
    check(unsafe { libc::pthread_key_create(&mut key, None) })?;
    // SAFETY: the key was created just now; the value is not used as a pointer.
    check(unsafe { libc::pthread_setspecific(key, mark) })?;
    // SAFETY: the key was created above, and not deleted yet.
    let timed = info::ask(effort, || unsafe { libc::pthread_getspecific(key) } == mark);
    // SAFETY: as above; nobody uses it any more.
    check(unsafe { libc::pthread_key_delete(key) })?;
    timed
}

/// The thread's identifier, by `pthread_self`.
fn current(effort: Effort) -> Result<Sample, Failure> {
    // SAFETY: takes nothing, and cannot fail.
    let current = || unsafe { libc::pthread_self() };
    let own = current();
    info::ask(effort, || current() == own)
}

fn create(effort: Effort) -> Result<Sample, Failure> {
    create::create(&Creator::new()?, effort)
}

fn join(effort: Effort) -> Result<Sample, Failure> {
    create::join(&Creator::new()?, effort)
}

fn create_join(effort: Effort) -> Result<Sample, Failure> {
    create::create_join(&Creator::new()?, effort)
}

fn fork_join(effort: Effort) -> Result<Sample, Failure> {
    create::fork_join(&Creator::new()?, effort)
}

/// Creates threads with stacks as small as a fiber's.
struct Creator {
    attributes: Attributes,
    /// How many threads of a batch have run. Stays for those that a failure leaves unjoined.
    run: &'static AtomicUsize,
}

impl Creator {
    fn new() -> Result<Self, Failure> {
        let attributes = Attributes::small_stacks().map_err(broken)?;
        Ok(Self { attributes, run: Box::leak(Box::default()) })
    }
}

impl Create for Creator {
    type Thread = Pthread;

    fn create(&self, index: usize, threads: usize) -> Result<Pthread, Failure> {
        let refused = |error: io::Error| thread_limits::refused(index, threads, &error);
        let run: *const AtomicUsize = self.run;
        // SAFETY: `token` expects a counter; this one stays, and is shared by reference.
        unsafe { self.attributes.create(token, run.cast()) }.map_err(refused)
    }

    fn run(&self, threads: &[Pthread]) {
        // Relaxed, both: a count alone.
        while self.run.load(Ordering::Relaxed) < threads.len() {
            Kernel::yield_now();
        }
        self.run.store(0, Ordering::Relaxed);
    }

    fn join(thread: Pthread) -> Result<u64, Failure> {
        thread.value().map(|token| token as u64).map_err(broken)
    }
}

/// Counts itself, and has nothing else to do.
extern "C" fn token(run: *mut c_void) -> *mut c_void {
    // SAFETY: `Creator` passes a counter that stays.
    let run = unsafe { &*run.cast::<AtomicUsize>() };
    // Relaxed: as in `run`.
    run.fetch_add(1, Ordering::Relaxed);
    ptr::without_provenance_mut(TOKEN as usize)
}

/// These functions return the error, instead of leaving it in `errno`.
fn check(result: i32) -> Result<(), Failure> {
    match result {
        0 => Ok(()),
        error => Err(broken(io::Error::from_raw_os_error(error))),
    }
}
