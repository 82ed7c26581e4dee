//! Runs the bodies of tests in fibers of all kinds that have thread-locals of their own.
//!
//! The tests use libraries that keep state for a thread, and suspend in the middle.

pub mod late;
pub mod native;

use std::sync::Arc;

use daiko::sync::Barrier;
use daiko::{Builder, Runtime};

/// Number of fibers that a test runs at a time.
pub const FIBERS: usize = 100;

/// Both kinds of fibers with thread-locals of their own.
pub const KINDS: [fn() -> Builder; 2] =
    [|| Builder::new().pinned(), || Builder::new().migratable()];

/// One of the [`FIBERS`] fibers that run the same body.
pub struct Member {
    /// From 0 on.
    pub index: usize,
    all: Arc<Barrier>,
}

impl Member {
    /// Suspends until every fiber has come here, and once more.
    pub fn meet(&self) {
        self.all.wait();
        daiko::yield_now();
    }

    /// Suspends some times. Each fiber does so another number of times.
    pub fn stagger(&self) {
        for _ in 0..self.index * 7 % 13 {
            daiko::yield_now();
        }
    }
}

/// Calls `each` with runtimes of one worker and of two, for either kind of fibers.
pub fn everywhere(mut each: impl FnMut(&Runtime, fn() -> Builder)) {
    for workers in 1..=2 {
        for kind in KINDS {
            let runtime = Runtime::builder().workers(workers).build().unwrap();
            each(&runtime, kind);
            let report = runtime.shutdown();
            assert_eq!((report.unwound, report.leaked), (0, 0));
        }
    }
}

/// Runs `body` in [`FIBERS`] fibers at a time, [everywhere]. Twice each, so that the second fibers
/// use the blocks of the first again.
pub fn hundred<T: Send + 'static>(body: impl Fn(&Member) -> T + Clone + Send + 'static) {
    everywhere(|runtime, kind| {
        for _ in 0..2 {
            hundred_in(runtime, kind, body.clone());
        }
    });
}

/// Runs `body` in [`FIBERS`] fibers at a time, and returns what it returned.
pub fn hundred_in<T: Send + 'static>(
    runtime: &Runtime,
    kind: fn() -> Builder,
    body: impl Fn(&Member) -> T + Clone + Send + 'static,
) -> Vec<T> {
    let all = Arc::new(Barrier::new(FIBERS));
    let spawn = |index| {
        let (body, member) = (body.clone(), Member { index, all: all.clone() });
        runtime.spawn_with(kind(), move || body(&member)).unwrap()
    };
    let fibers: Vec<_> = (0..FIBERS).map(spawn).collect();
    fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect()
}
