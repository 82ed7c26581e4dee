//! Tasks that sleep by timers of tokio, which tick once per millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use daiko_sys::clock;
use tokio::task::{self, JoinHandle};
use tokio::time;

use crate::experiments::costs::sleep::{Sleeps, at_most};
use crate::kit::{Effort, Failure, Sample};

pub(super) async fn lateness(
    length: Duration,
    timers: usize,
    effort: Effort,
) -> Result<Sample, Failure> {
    let sleepers = gather(timers).await;
    let mut sleeps = Sleeps::new(length, effort);
    while let Some(due) = sleeps.next_due() {
        time::sleep(length).await;
        sleeps.ended(due, clock::monotonic_ns())?;
    }
    if sleepers.iter().any(JoinHandle::is_finished) {
        return Err(Failure::Broken("tokio: a wait of an hour has ended".into()));
    }
    Ok(sleeps.end())
}

/// Creates other tasks that wait; they end with the runtime.
async fn gather(timers: usize) -> Vec<JoinHandle<()>> {
    let waiting = Arc::new(AtomicUsize::new(0));
    let wait = |index| wait(Arc::clone(&waiting), at_most(index));
    let sleepers = (0..timers).map(|index| task::spawn(wait(index))).collect();
    // Relaxed: the count publishes no other data.
    while waiting.load(Ordering::Relaxed) < timers {
        task::yield_now().await;
    }
    sleepers
}

async fn wait(waiting: Arc<AtomicUsize>, timeout: Duration) {
    // Relaxed: see `gather`.
    waiting.fetch_add(1, Ordering::Relaxed);
    time::sleep(timeout).await;
}
