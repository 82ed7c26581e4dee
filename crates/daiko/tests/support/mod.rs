//! Helpers that the tests share.

#![allow(dead_code, reason = "every test binary uses a part of this module")]

#[path = "../../../../tests/child.rs"]
pub(crate) mod child;
pub(crate) mod disk;
pub(crate) mod endless;
#[path = "../../../../tests/real_time.rs"]
pub(crate) mod real_time;
pub(crate) mod scenarios;
#[path = "../../../../tests/seccomp.rs"]
pub(crate) mod seccomp;
#[path = "../../../../tests/segments.rs"]
pub(crate) mod segments;
pub(crate) mod waits;

use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use daiko::{Builder, Preset, Runtime, RuntimeBuilder};

/// All presets.
pub(crate) const PRESETS: [Preset; 3] = [Preset::Latency, Preset::Balanced, Preset::Power];

/// An event that must come is lost after this time: far above every documented bound.
const LOST: Duration = Duration::from_secs(60);
/// The most time between two looks that counts: a machine may stand still for a while.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Waits for so long, as time goes by for a machine that runs.
struct Patience {
    left: Duration,
    looked: Instant,
}

impl Patience {
    fn new() -> Self {
        Patience { left: LOST, looked: Instant::now() }
    }

    #[track_caller]
    fn look(&mut self, expected: &str) {
        let now = Instant::now();
        self.left = self.left.saturating_sub((now - self.looked).min(LOOK));
        self.looked = now;
        assert!(!self.left.is_zero(), "never came: {expected}");
    }
}

/// Returns a runtime with so many workers.
pub(crate) fn workers(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Runs `f` in a runtime as built, which then has nothing left to unwind.
pub(crate) fn run_on(builder: RuntimeBuilder, f: impl FnOnce() + Send + 'static) {
    let runtime = builder.build().unwrap();
    runtime.run(f);
    end(runtime);
}

/// Ends a runtime after all of its fibers have finished.
pub(crate) fn end(runtime: Runtime) {
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked), (0, 0));
}

/// Returns the size of a small stack: four times as many bytes on aarch64, where each fiber has a
/// kernel thread, which has at least 128 KiB there.
pub(crate) const fn small_stack(bytes: usize) -> usize {
    if cfg!(target_arch = "aarch64") { 4 * bytes } else { bytes }
}

/// Runs `body` as a pinned fiber and as a migratable fiber, with one worker and with two.
pub(crate) fn everywhere(body: impl Fn() + Clone + Send + 'static) {
    for count in 1..=2 {
        for builder in [Builder::new as fn() -> Builder, migratable] {
            let runtime = workers(count);
            runtime.spawn_with(builder(), body.clone()).unwrap().join().unwrap();
            end(runtime);
        }
    }
}

/// Lets other threads run until `come` holds; a fiber keeps its worker meanwhile.
#[track_caller]
pub(crate) fn until(expected: &str, mut come: impl FnMut() -> bool) {
    let mut patience = Patience::new();
    while !come() {
        patience.look(expected);
        std::thread::yield_now();
    }
}

/// Lets other fibers run until `come` holds.
#[track_caller]
pub(crate) fn yield_until(expected: &str, mut come: impl FnMut() -> bool) {
    let mut patience = Patience::new();
    while !come() {
        patience.look(expected);
        daiko::yield_now();
    }
}

/// Prints that a check did not run, and why.
pub(crate) fn skip(reason: &str) {
    println!("skipped: {reason}");
}

/// Returns a builder of migratable fibers, for closures that keep nothing in thread-local storage.
pub(crate) fn migratable() -> Builder {
    // SAFETY: the tests' migratable fibers keep nothing in thread-local storage across a
    // suspension.
    Builder::new().migratable()
}

/// Returns the panic message of `f`.
pub(crate) fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    match panic::catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => "no panic".to_owned(),
        Err(payload) => match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => (*payload.downcast::<&str>().expect("a payload of text")).to_owned(),
        },
    }
}

/// Checks that an error names its remedy, in one line.
#[track_caller]
pub(crate) fn assert_names(error: &impl Display, remedy: &str) {
    let text = error.to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains(remedy), "{text:?} does not name {remedy:?}");
}

/// Counts how many of its tokens have been dropped, and how many were made.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<Counts>);

#[derive(Default)]
struct Counts {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

/// A token that must be dropped exactly once, which [`Drops`] checks.
pub(crate) struct Token {
    counts: Arc<Counts>,
    dropped: bool,
}

impl Drops {
    pub(crate) fn token(&self) -> Token {
        self.0.made.fetch_add(1, Ordering::Relaxed);
        Token { counts: self.0.clone(), dropped: false }
    }

    pub(crate) fn made(&self) -> usize {
        self.0.made.load(Ordering::Relaxed)
    }

    pub(crate) fn dropped(&self) -> usize {
        self.0.dropped.load(Ordering::Acquire)
    }

    /// Asserts that every token was dropped, and none twice.
    #[track_caller]
    pub(crate) fn assert_all(&self) {
        assert_eq!(self.dropped(), self.made(), "tokens dropped, and made");
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        assert!(!self.dropped, "dropped twice");
        self.dropped = true;
        self.counts.dropped.fetch_add(1, Ordering::Release);
    }
}

/// Runs a closure when it is dropped.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
