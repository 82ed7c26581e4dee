//! Tasks of tokio that wait for a `Notify`, and that sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::{self, JoinHandle};
use tokio::time::sleep;

use super::phases::{Phases, all_ended, sleeps};
use crate::kit::Failure;
use crate::kit::free_memory::resident_bytes;
use crate::kit::tasks::{TokioKind, broken};

/// The number of tasks that wait, and a bell for each.
struct Shared {
    suspended: AtomicUsize,
    bells: Box<[Notify]>,
}

pub(super) fn parked(kind: TokioKind, threads: usize) -> Result<Phases, Failure> {
    kind.run(1, async move {
        let mut phases = Phases::default();
        let begin = Instant::now();
        let bells = (0..threads).map(|_| Notify::new()).collect();
        let shared = Arc::new(Shared { suspended: AtomicUsize::new(0), bells });
        let tasks: Vec<_> = (0..threads)
            .map(|index| {
                let shared = Arc::clone(&shared);
                task::spawn(async move {
                    // Relaxed: the count says no more than that the task has run.
                    shared.suspended.fetch_add(1, Ordering::Relaxed);
                    shared.bells[index].notified().await;
                })
            })
            .collect();
        while shared.suspended.load(Ordering::Relaxed) < threads {
            task::yield_now().await;
        }
        phases.start = begin.elapsed();
        phases.resident = resident_bytes(std::process::id())?;

        let begin = Instant::now();
        shared.bells.iter().for_each(Notify::notify_one);
        let mut left = &tasks[..];
        while !all_ended(&mut left, JoinHandle::is_finished) {
            task::yield_now().await;
        }
        phases.wake = begin.elapsed();

        let begin = Instant::now();
        join(tasks).await?;
        phases.join = begin.elapsed();
        Ok(phases)
    })
}

pub(super) fn asleep(kind: TokioKind, threads: usize) -> Result<(), Failure> {
    kind.run(1, async move {
        join(sleeps(threads).map(|length| task::spawn(sleep(length))).collect()).await
    })
}

async fn join(tasks: Vec<JoinHandle<()>>) -> Result<(), Failure> {
    for task in tasks {
        task.await.map_err(broken)?;
    }
    Ok(())
}
