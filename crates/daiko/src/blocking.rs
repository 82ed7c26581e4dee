//! Calls that block their thread, while the fiber is suspended.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::deadlock::{Kind, Target};
use crate::fiber::{ControlBlock, unwind};
use crate::process;
use crate::worker::{self, suspend};

/// How long a thread of the pool waits for the next call before it ends.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The most threads of the pool; further calls wait for one.
const MOST_THREADS: usize = 512;

/// Runs `f`, which may block its thread, on a thread of its own while the calling fiber is
/// suspended; the other fibers of the worker run on.
///
/// For system calls that wait, locks of `std`, and long computations. `f` may borrow from the
/// caller. Outside of a fiber it only runs `f`. At most 512 such calls run at a time for one
/// runtime; others wait for their turn.
///
/// `f` is no fiber: what it waits for blocks its thread, no cancel ends it, and what it spawns goes to the
/// [default runtime](crate::default_runtime()), unless it names one by
/// [`Runtime::spawn`](crate::Runtime::spawn).
///
/// ```
/// # daiko::run(|| {
/// let text = String::from("daiko");
/// let len = daiko::blocking(|| {
///     std::thread::sleep(std::time::Duration::from_millis(1));
///     text.len()
/// });
/// assert_eq!(len, 5);
/// # });
/// ```
///
/// # Panics
///
/// If `f` does, with its payload; inside [`no_suspend`](crate::no_suspend) or a
/// [`Poller`](crate::agent::Poller); or if no thread at all can be started for it.
pub fn blocking<F, R>(f: F) -> R
where
    F: FnOnce() -> R + Send,
    R: Send,
{
    let Some((worker, fiber)) = suspend::try_caller() else {
        worker::assert_no_poller("blocking");
        return f();
    };
    if fiber.flags.get() != 0 {
        unwind::before_suspension(fiber);
    }
    let _call = process::call();
    let mut call = Call { f: Some(f), result: None };
    let job = Job {
        call: NonNull::from(&mut call).cast(),
        run: Call::<F, R>::run,
        fiber: NonNull::from(fiber),
    };
    worker.runtime().blocking(worker).submit(job);
    // The call borrows from this stack: not even a cancel ends the wait for it.
    fiber.waiting_for(Target::of(Kind::Blocking), || suspend::absorb_wake(fiber));
    match call.result {
        Some(Ok(result)) => result,
        Some(Err(payload)) => {
            process::unwinds();
            panic::resume_unwind(payload)
        }
        None => {
            process::unwinds();
            panic!("daiko::blocking: no thread could be started for the call; see ulimit -u")
        }
    }
}

/// A call on the stack of the fiber that waits for it.
struct Call<F, R> {
    f: Option<F>,
    result: Option<std::thread::Result<R>>,
}

impl<F: FnOnce() -> R, R> Call<F, R> {
    /// # Safety
    ///
    /// `this` points to a `Call<F, R>` that nobody else uses until the call's fiber is woken.
    unsafe fn run(this: NonNull<()>) {
        // SAFETY: by this function's contract.
        let call = unsafe { this.cast::<Self>().as_mut() };
        if let Some(f) = call.f.take() {
            call.result = Some(panic::catch_unwind(AssertUnwindSafe(f)));
        }
    }
}

struct Job {
    call: NonNull<()>,
    run: unsafe fn(NonNull<()>),
    fiber: NonNull<ControlBlock>,
}

// SAFETY: closure and result are Send, and the fiber waits until the job is done.
unsafe impl Send for Job {}

impl Job {
    fn run(self) {
        // SAFETY: the call lies on the stack of the fiber, which waits for the wake below.
        unsafe { (self.run)(self.call) };
        self.wake();
    }

    /// Wakes the fiber: without a result, if the call was not run.
    fn wake(self) {
        // SAFETY: the fiber waits, so its block is in use.
        unsafe { self.fiber.as_ref() }.wake(worker::current());
    }
}

/// The threads that run such calls, started when needed, kept for a while.
#[derive(Default)]
pub(crate) struct BlockingPool(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether there ever was a call.
    used: AtomicBool,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    ending: bool,
}

impl BlockingPool {
    fn submit(&self, job: Job) {
        // Relaxed: read once this process has died.
        self.0.used.store(true, Ordering::Relaxed);
        let mut state = self.0.lock();
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() {
            self.0.changed.notify_one();
        } else if state.threads < MOST_THREADS {
            state.threads += 1;
            drop(state);
            self.start_thread();
        }
    }

    fn start_thread(&self) {
        let pool = self.0.clone();
        let name = String::from("daiko-blocking");
        let started = std::thread::Builder::new().name(name).spawn(move || pool.work());
        if started.is_ok() {
            return;
        }
        let mut state = self.0.lock();
        state.threads -= 1;
        // With another thread in the pool the calls are only late; without, they have failed.
        if state.threads == 0 {
            let jobs = std::mem::take(&mut state.jobs);
            drop(state);
            jobs.into_iter().for_each(Job::wake);
        }
    }

    /// How many threads have nothing to run, and sleep for a while before they end.
    pub(crate) fn idle_threads(&self) -> usize {
        let state = self.0.lock();
        if state.jobs.is_empty() { state.idle } else { 0 }
    }

    /// Whether there ever was a call. What the threads of a process had in hand when it died nobody knows.
    pub(crate) fn was_used(&self) -> bool {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Lets the threads end once they are idle.
    pub(crate) fn end(&self) {
        self.0.lock().ending = true;
        self.0.changed.notify_all();
    }
}

impl Inner {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job.run();
                state = self.lock();
                continue;
            }
            if state.ending {
                break;
            }
            state.idle += 1;
            let waited = self.changed.wait_timeout(state, KEEP_ALIVE);
            let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.idle -= 1;
            if timeout.timed_out() && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}
