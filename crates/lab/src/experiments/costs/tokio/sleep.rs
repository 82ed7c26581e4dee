//! Tasks that sleep by timers of tokio, which tick once per millisecond.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use daiko_sys::clock;
use tokio::{
    task::{self, JoinHandle},
    time,
};

use crate::{
    experiments::costs::sleep::{Sleeps, at_most},
    kit::{Effort, Failure, Sample},
};

pub(super) async fn lateness(
    length: Duration,
    timers: usize,
    effort: Effort,
) -> Result<Sample, Failure> {
    let others = gather(timers).await;
    let mut sleeps = Sleeps::new(length, effort);
    while let Some(due) = sleeps.another() {
        time::sleep(length).await;
        sleeps.ended(due, clock::monotonic_ns())?;
    }
    if others.iter().any(JoinHandle::is_finished) {
        return Err(Failure::Broken("tokio: a wait of an hour has ended".into()));
    }
    Ok(sleeps.end())
}

/// Creates other tasks that wait; they end with the runtime.
async fn gather(timers: usize) -> Vec<JoinHandle<()>> {
    let waiting = Arc::new(AtomicUsize::new(0));
    let wait = |index| wait(Arc::clone(&waiting), at_most(index));
    let others = (0..timers).map(|index| task::spawn(wait(index))).collect();
    // Relaxed: the count publishes no other data.
    while waiting.load(Ordering::Relaxed) < timers {
        task::yield_now().await;
    }
    others
}

async fn wait(waiting: Arc<AtomicUsize>, timeout: Duration) {
    // Relaxed: see `gather`.
    waiting.fetch_add(1, Ordering::Relaxed);
    time::sleep(timeout).await;
}
