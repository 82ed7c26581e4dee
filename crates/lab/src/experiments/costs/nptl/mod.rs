//! POSIX threads, through the C library's own calls.
//!
//! Without contention, all threads are bound to one CPU. Threads placed by the system would also
//! pay for migration and remote wake-ups, which make up most of a create and join.

mod channel;
mod primitives;
mod sleep;

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{io, ptr};

use self::channel::{ANY, queue};
use self::primitives::PosixSemaphore;
use self::sleep::{room_for, sleeps};
use super::channel::CAPACITY;
use super::create::{Create, TOKEN};
use super::item::{CostMethod, Item};
use super::locks::Pair;
use super::sleep::{PARKED, POLLING};
use super::threads::{KernelThreads, Threads, on_one_cpu};
use super::{blocking, crowd, info};
use crate::kit::pthread::{
    Attributes, Pthread, PthreadCondvar, PthreadMutex, PthreadRwLock, broken,
};
use crate::kit::{Effort, Failure, Sample, thread_limits};

pub(super) const METHOD: CostMethod = CostMethod::new(
    "nptl",
    &[
        &[
            Item::within(on_one_cpu, "thread-info", info::thread_local).with("of", "tls"),
            Item::within(on_one_cpu, "thread-info", specific).with("of", "specific"),
            Item::within(on_one_cpu, "thread-info", current).with("of", "current"),
            Item::of_many("mutex-contended", crowd::mutex::<KernelThreads, PthreadMutex<u64>>),
            Item::of_many("rwlock-contended", crowd::rwlock::<KernelThreads, PthreadRwLock<Pair>>),
            Item::of("channel", queue::<CAPACITY>).with("kind", "bounded"),
            Item::of("channel", queue::<ANY>).with("kind", "unbounded"),
            Item::of_sleeps(POLLING, room_for, sleeps),
            Item::of_sleeps(PARKED, room_for, sleeps),
        ],
        &blocking::locks::<KernelThreads, PthreadMutex<u64>, PthreadCondvar>(on_one_cpu),
        &blocking::semaphores::<KernelThreads, PosixSemaphore>(on_one_cpu),
        &blocking::threads::<KernelThreads, Creator>(on_one_cpu),
    ],
);

/// Measures reads by `pthread_getspecific`.
fn specific(effort: Effort) -> Result<Sample, Failure> {
    let mut key = 0;
    let mark = ptr::without_provenance_mut(info::MARK);
    // SAFETY: the key is written to a live local, and there is no destructor.
    check(unsafe { libc::pthread_key_create(&mut key, None) })?;
    // SAFETY: the key was created just now; the value is not used as a pointer.
    check(unsafe { libc::pthread_setspecific(key, mark) })?;
    // SAFETY: the key was created above, and not deleted yet.
    let timed = info::ask(effort, || unsafe { libc::pthread_getspecific(key) } == mark);
    // SAFETY: as above; this is the last use of the key.
    check(unsafe { libc::pthread_key_delete(key) })?;
    timed
}

/// Measures reads of the thread's identifier by `pthread_self`.
fn current(effort: Effort) -> Result<Sample, Failure> {
    // SAFETY: the call takes no arguments and cannot fail.
    let current = || unsafe { libc::pthread_self() };
    let own = current();
    info::ask(effort, || current() == own)
}

/// Creates threads with stacks as small as a fiber's.
struct Creator {
    attributes: Attributes,
    /// Number of threads of a batch that have run. It is leaked, so it outlives threads that a
    /// failure leaves unjoined.
    run: &'static AtomicUsize,
}

impl Create for Creator {
    type Thread = Pthread;

    fn new() -> Result<Self, Failure> {
        let attributes = Attributes::small_stacks().map_err(broken)?;
        Ok(Self { attributes, run: Box::leak(Box::default()) })
    }

    fn create(&self, index: usize, threads: usize) -> Result<Pthread, Failure> {
        let refused = |error: io::Error| thread_limits::refused(index, threads, &error);
        let run: *const AtomicUsize = self.run;
        // SAFETY: `token` expects a counter; this one is never freed, and is shared by reference.
        unsafe { self.attributes.create(token, run.cast()) }.map_err(refused)
    }

    fn run(&self, threads: &[Pthread]) {
        // Relaxed, both: the count publishes no other data.
        while self.run.load(Ordering::Relaxed) < threads.len() {
            KernelThreads::yield_now();
        }
        self.run.store(0, Ordering::Relaxed);
    }

    fn join(thread: Pthread) -> Result<u64, Failure> {
        thread.value().map(|token| token as u64).map_err(broken)
    }
}

/// Body of a created thread: counts itself.
extern "C" fn token(run: *mut c_void) -> *mut c_void {
    // SAFETY: `Creator` passes a counter that is never freed.
    let run = unsafe { &*run.cast::<AtomicUsize>() };
    // Relaxed: see `run`.
    run.fetch_add(1, Ordering::Relaxed);
    ptr::without_provenance_mut(TOKEN as usize)
}

/// Checks a call that returns its error rather than setting `errno`.
fn check(result: i32) -> Result<(), Failure> {
    match result {
        0 => Ok(()),
        error => Err(broken(io::Error::from_raw_os_error(error))),
    }
}
