//! Interface of a method's threads for measurements with several participants, and its
//! implementation for kernel threads.

use std::thread::{self, Builder, JoinHandle};

use crate::kit::{Effort, Failure, OrFailure, host, thread_limits};

/// A kind of threads. The cost of creating and joining them is not measured here.
pub(super) trait Threads: 'static {
    type Handle<T: Send + 'static>;

    /// Creates thread `index` of `threads`.
    fn spawn<T: Send + 'static>(
        index: usize,
        threads: usize,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Self::Handle<T>, Failure>;

    /// Waits for the thread's end and returns its result.
    fn join<T: Send + 'static>(thread: Self::Handle<T>) -> Result<T, Failure>;

    /// Lets other threads run.
    fn yield_now();
}

/// Kernel threads.
pub(super) struct KernelThreads;

impl KernelThreads {
    /// Stack size in bytes of address space. Small, so that 10,000 threads fit wherever a few do.
    const STACK: usize = 64 * 1024;
}

impl Threads for KernelThreads {
    type Handle<T: Send + 'static> = JoinHandle<T>;

    fn spawn<T: Send + 'static>(
        index: usize,
        threads: usize,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, Failure> {
        let refused = |error| thread_limits::refused(index, threads, &error);
        Builder::new().stack_size(Self::STACK).spawn(body).map_err(refused)
    }

    fn join<T: Send + 'static>(thread: JoinHandle<T>) -> Result<T, Failure> {
        thread.join().map_err(|_| Failure::Broken("a thread panicked".into()))
    }

    fn yield_now() {
        thread::yield_now();
    }
}

/// Runs `body` on a thread that is bound to one CPU. Threads that it creates inherit the binding.
pub(super) fn on_one_cpu<R: Send + 'static>(
    body: impl FnOnce(Effort) -> Result<R, Failure> + Send + 'static,
    effort: Effort,
) -> Result<R, Failure> {
    let cpu = *host::cpu_list().first().expect("a process has a CPU");
    let bound = move || {
        host::bind(cpu).or_broken(format_args!("cannot bind to CPU {cpu}"))?;
        body(effort)
    };
    thread::spawn(bound).join().expect("no body panics")
}
