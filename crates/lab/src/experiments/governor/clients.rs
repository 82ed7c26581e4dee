//! The waiters: a fiber, or a kernel thread on a futex.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use daiko::{Builder, Preset, Runtime};
use daiko_sys::futex::{self, Scope};

use super::wakes::Wakes;
use crate::kit::{Failure, OrFailure, host};

/// A kind of waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// A fiber of a runtime with `agents` workers, all of which may poll.
    Fiber { preset: Preset, agents: usize },
    /// A kernel thread on a futex.
    Thread,
}

impl Waiter {
    /// Starts the waiter, calls `body` with the function that wakes it, and ends it.
    pub(super) fn woken_by<R>(
        self,
        wakes: Wakes,
        body: impl FnOnce(&Wakes, &(dyn Fn() + Sync)) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        match self {
            Self::Fiber { preset, agents } => with_fiber(preset, agents, wakes, body),
            Self::Thread => with_thread(&wakes, body),
        }
    }
}

fn with_fiber<R>(
    preset: Preset,
    agents: usize,
    wakes: Wakes,
    body: impl FnOnce(&Wakes, &(dyn Fn() + Sync)) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let runtime = Runtime::builder().workers(agents).max_agents(agents).preset(preset).build();
    let runtime = runtime?;
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
    let cpu = *host::cpu_list().first().expect("a process has a CPU");
    let wake = || {
        // Pairs with the Acquire below.
        word.fetch_add(1, Ordering::Release);
        futex::wake(word, 1, Scope::Private);
    };
    let wait = || {
        host::bind(cpu).or_broken("sched_setaffinity")?;
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
