//! Waiters in the tests of locks and the like: fibers, migratable fibers, threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use daiko::{Builder, JoinHandle};

use super::{end, migratable, workers, yield_until};

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(3600);
/// A timeout that is over before any other fiber can act.
pub(crate) const SHORT: Duration = Duration::from_nanos(1);

/// Gives way to the other fibers of this worker or, on a kernel thread, to other threads.
pub(crate) fn let_others_run() {
    match daiko::try_current() {
        Some(_) => daiko::yield_now(),
        None => thread::yield_now(),
    }
}

/// Runs `body` `each` times as pinned fibers, as migratable fibers and on threads, on runtimes of 1
/// to 4 workers.
pub(crate) fn everywhere(each: usize, body: impl Fn() + Clone + Send + 'static) {
    everywhere_anew(each, || body.clone());
}

/// Runs as [`everywhere`] does, with a new body for each runtime.
pub(crate) fn everywhere_anew<B>(each: usize, mut body: impl FnMut() -> B)
where
    B: Fn() + Clone + Send + 'static,
{
    for count in 1..=4 {
        let body = body();
        numbered_on(count, each, &move |_| body());
    }
}

/// Runs as [`everywhere`] does, with a number for each call of `body` in a runtime.
pub(crate) fn everywhere_numbered(each: usize, body: impl Fn(usize) + Clone + Send + 'static) {
    (1..=4).for_each(|count| numbered_on(count, each, &body));
}

fn numbered_on<B>(count: usize, each: usize, body: &B)
where
    B: Fn(usize) + Clone + Send + 'static,
{
    let runtime = workers(count);
    let numbered = |number| {
        let body = body.clone();
        move || body(number)
    };
    let fibers: Vec<JoinHandle<()>> = (0..2 * each)
        .map(|index| {
            let builder = if index % 2 == 0 { Builder::new() } else { migratable() };
            runtime.spawn_with(builder, numbered(index)).unwrap()
        })
        .collect();
    let threads: Vec<_> =
        (2 * each..3 * each).map(|index| thread::spawn(numbered(index))).collect();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    end(runtime);
}

/// Runs `body` on the only worker of a runtime, where no spare takes it away.
pub(crate) fn on_one_worker(body: impl FnOnce() + Send + 'static) {
    let runtime = workers(1);
    runtime.spawn_with(Builder::new().on(0), body).unwrap().join().unwrap();
    end(runtime);
}

/// Runs `body` on the only worker of a runtime whose fibers borrow the thread-locals of their
/// worker.
pub(crate) fn on_borrowed_thread_locals(body: impl FnOnce() + Send + 'static) {
    // SAFETY: the fibers of these tests keep no reference to a thread-local over a suspension.
    let builder = unsafe { daiko::Runtime::builder().workers(1).borrowed() };
    let runtime = builder.build().unwrap();
    runtime.spawn_with(Builder::new().on(0), body).unwrap().join().unwrap();
    end(runtime);
}

/// Spawns a fiber that runs `wait` on the caller's only worker; returns once it has suspended
/// there.
pub(crate) fn waiting<T: Send + 'static>(
    wait: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let started = Arc::new(AtomicBool::new(false));
    let starts = started.clone();
    let body = move || {
        starts.store(true, Ordering::Relaxed);
        wait()
    };
    let handle = Builder::new().on(0).spawn(body).unwrap();
    yield_until("the start", || started.load(Ordering::Relaxed));
    handle
}
