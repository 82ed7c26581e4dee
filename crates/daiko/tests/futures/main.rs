//! Futures that fibers and threads poll, and futures that await fibers.

mod blocks;
mod channels;
mod joins;
#[path = "../support/mod.rs"]
mod support;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// A future that is ready once it is told so; it is woken by hand.
#[derive(Clone, Default)]
struct Signal(Arc<State>);

#[derive(Default)]
struct State {
    is_set: AtomicBool,
    polls: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    fn polls(&self) -> usize {
        self.0.polls.load(Ordering::Relaxed)
    }

    /// Returns the waker of the last poll.
    fn waker(&self) -> Option<Waker> {
        self.0.waker.lock().unwrap().clone()
    }

    fn set(&self) {
        self.0.is_set.store(true, Ordering::Relaxed);
    }

    /// Makes it ready, and wakes.
    fn fire(&self) {
        self.set();
        self.waker().into_iter().for_each(Waker::wake);
    }

    /// Lets other threads run until it was polled.
    #[track_caller]
    fn await_poll(&self) {
        support::until("a poll", || self.waker().is_some());
    }
}

impl Future for Signal {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.polls.fetch_add(1, Ordering::Relaxed);
        *self.0.waker.lock().unwrap() = Some(context.waker().clone());
        match self.0.is_set.load(Ordering::Relaxed) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// Is pending until the function says that it is ready.
fn until<R>(mut poll: impl FnMut(&Waker) -> Option<R> + Unpin) -> impl Future<Output = R> {
    std::future::poll_fn(move |context| poll(context.waker()).map_or(Poll::Pending, Poll::Ready))
}

/// Yields to all other tasks `count` times.
async fn yields(mut count: usize) {
    until(move |waker| {
        if count == 0 {
            return Some(());
        }
        count -= 1;
        waker.wake_by_ref();
        None
    })
    .await;
}
