//! The waiters: a fiber, a kernel thread on a futex, or a task of tokio.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use daiko::{Builder, Preset, Runtime, RuntimeBuilder};
use daiko_sys::futex::{self, Scope};
use tokio::sync::Notify;

use super::wakes::Wakes;
use crate::kit::tasks::TokioKind;
use crate::kit::{Failure, OrFailure, host};

/// How the agents of a runtime poll.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Polling {
    /// A preset says how.
    By(Preset),
    /// So much that wakes are seen within this time: a latency target.
    Within(Duration),
    /// As much as so many CPUs allow: a CPU budget.
    For(f64),
}

impl Polling {
    fn set(self, builder: RuntimeBuilder) -> RuntimeBuilder {
        match self {
            Self::By(preset) => builder.preset(preset),
            Self::Within(latency) => builder.latency_target(latency),
            Self::For(cpus) => builder.cpu_budget(cpus),
        }
    }
}

/// A kind of waiter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Waiter {
    /// A fiber of a runtime with `agents` workers, all of which may poll.
    Fiber { polling: Polling, agents: usize },
    /// A kernel thread on a futex.
    Thread,
    /// A task of tokio, on a runtime of one worker.
    Task,
    /// A task of tokio, on a runtime of the thread that starts it.
    CurrentTask,
}

impl Waiter {
    /// Starts the waiter, calls `body` with the function that wakes it, and ends it.
    pub(super) fn woken_by<R>(
        self,
        wakes: Wakes,
        body: impl FnOnce(&Wakes, &(dyn Fn() + Sync)) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        match self {
            Self::Fiber { polling, agents } => with_fiber(polling, agents, wakes, body),
            Self::Thread => with_thread(&wakes, body),
            Self::Task => with_task(wakes, body),
            Self::CurrentTask => with_current_task(wakes, body),
        }
    }
}

fn with_fiber<R>(
    polling: Polling,
    agents: usize,
    wakes: Wakes,
    body: impl FnOnce(&Wakes, &(dyn Fn() + Sync)) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let builder = Runtime::builder().workers(agents).max_agents(agents).bind(true);
    let runtime = polling.set(builder).build()?;
    let wakes = Arc::new(wakes);
    let arrivals = Arc::clone(&wakes);
    let wait = move || {
        loop {
            daiko::park();
            if arrivals.arrive() {
                return;
            }
        }
    };
    let fiber = runtime.spawn_with(Builder::new().on(0), wait);
    let fiber = fiber?;
    // After a failure, a fiber that still waits is unwound with its runtime.
    let result = body(&wakes, &|| fiber.fiber().unpark())?;
    fiber.join()?;
    Ok(result)
}

fn with_thread<R>(
    wakes: &Wakes,
    body: impl FnOnce(&Wakes, &(dyn Fn() + Sync)) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let word = &AtomicU32::new(0);
    let wake = || {
        // Pairs with the Acquire below.
        word.fetch_add(1, Ordering::Release);
        futex::wake(word, 1, Scope::Private);
    };
    let wait = || {
        bind_to_first().or_broken("sched_setaffinity")?;
        let mut last = 0;
        loop {
            let _ = futex::wait(word, last, None, Scope::Private);
            // Pairs with the Release above. Loaded before `arrive`, so that a wake which `arrive`
            // misses has changed the word.
            last = word.load(Ordering::Acquire);
            if wakes.arrive() {
                return Ok(());
            }
        }
    };
    thread::scope(|scope| {
        let thread = scope.spawn(wait);
        let result = body(wakes, &wake);
        wakes.halt();
        wake();
        thread.join().expect("the waiter does not panic").and(result)
    })
}

fn with_task<R>(
    wakes: Wakes,
    body: impl FnOnce(&Wakes, &(dyn Fn() + Sync)) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).on_thread_start(|| bind_to_first().expect("an allowed CPU"));
    let runtime = builder.build().or_limit("tokio's runtime did not start")?;
    let shared = Arc::new((wakes, Notify::new()));
    let task = runtime.spawn(wait(Arc::clone(&shared)));
    // After a failure, a task that still waits is dropped with its runtime.
    let result = body(&shared.0, &|| shared.1.notify_one())?;
    runtime.block_on(task).or_broken("tokio")?;
    Ok(result)
}

fn with_current_task<R>(
    wakes: Wakes,
    body: impl FnOnce(&Wakes, &(dyn Fn() + Sync)) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let shared = Arc::new((wakes, Notify::new()));
    let waiter = Arc::clone(&shared);
    let thread = thread::spawn(move || {
        bind_to_first().or_broken("sched_setaffinity")?;
        TokioKind::CurrentThread.run(1, async move {
            wait(waiter).await;
            Ok(())
        })
    });
    let result = body(&shared.0, &|| shared.1.notify_one())?;
    thread.join().expect("the waiter does not panic").map(|()| result)
}

/// Waits for all wakes.
async fn wait(shared: Arc<(Wakes, Notify)>) {
    let (arrivals, notify) = &*shared;
    loop {
        notify.notified().await;
        if arrivals.arrive() {
            return;
        }
    }
}

fn bind_to_first() -> io::Result<()> {
    host::bind(*host::cpu_list().first().expect("a process has a CPU"))
}
