//! A monitor thread that goes to sleep while workers park and run.

use loom::cell::UnsafeCell;
use loom::sync::Arc;

use super::*;
use crate::modelled::{bounded, spawn};

struct Shared {
    sleep: MonitorSleep,
    /// Futex wakes that were owed.
    wakes: AtomicU32,
}

impl Shared {
    fn new(awake: u32) -> Arc<Self> {
        let shared = Self { sleep: MonitorSleep::new(), wakes: AtomicU32::new(0) };
        (0..awake).for_each(|_| assert_eq!(shared.sleep.worker_runs(), MonitorWas::Awake));
        Arc::new(shared)
    }

    fn runs(&self) {
        if self.sleep.worker_runs() == MonitorWas::Asleep {
            self.wakes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns true if the monitor thread goes to sleep. Loom cannot wait for a futex, so the
    /// models look for the wake once all threads have ended.
    fn sleeps(&self) -> bool {
        self.sleep.try_sleep() && self.sleep.stays_asleep()
    }

    /// Checks the end of an execution that leaves a worker running.
    fn check(&self, sleeps: bool) {
        let word = self.sleep.word().load(Ordering::Relaxed);
        let wakes = self.wakes.load(Ordering::Relaxed);
        assert_ne!(word, MonitorSleep::ASLEEP, "a worker runs, and the monitor thread sleeps");
        assert!(wakes == 1 || !sleeps && wakes == 0, "{wakes} wakes, sleeps: {sleeps}");
    }
}

#[test]
fn a_worker_that_runs_again_is_seen_or_wakes_the_monitor_thread() {
    loom::model(|| {
        let shared = Shared::new(1);
        let worker = spawn(&shared, |shared| {
            shared.sleep.worker_parks();
            shared.runs();
        });
        let sleeps = shared.sleeps();
        worker.join().unwrap();
        shared.check(sleeps);
    });
}

/// Only the first worker looks at the word: another that comes while it runs relies on it, also if
/// the first one parks again.
#[test]
fn of_two_workers_the_first_wakes_the_monitor_thread_for_both() {
    bounded(2, || {
        let shared = Shared::new(0);
        let short = spawn(&shared, |shared| {
            shared.runs();
            shared.sleep.worker_parks();
        });
        let long = spawn(&shared, Shared::runs);
        // Once more if it has been woken: the first worker may have parked by then.
        let _slept = shared.sleeps() || shared.sleeps();
        short.join().unwrap();
        long.join().unwrap();
        let word = shared.sleep.word().load(Ordering::Relaxed);
        assert_ne!(word, MonitorSleep::ASLEEP, "a worker runs, and the monitor thread sleeps");
    });
}

#[test]
fn a_monitor_thread_that_is_to_end_does_not_sleep() {
    loom::model(|| {
        let shared = Shared::new(0);
        let worker = spawn(&shared, Shared::runs);
        let ends = spawn(&shared, |shared| shared.sleep.end());
        let sleeps = shared.sleeps();
        worker.join().unwrap();
        ends.join().unwrap();
        assert!(shared.sleep.is_ending(), "slept: {sleeps}");
    });
}

#[test]
fn a_monitor_thread_that_sleeps_sees_the_writes_of_the_workers() {
    struct Written(MonitorSleep, UnsafeCell<u32>);
    // SAFETY: the model checks that the cell is read once no worker runs.
    unsafe impl Sync for Written {}
    // SAFETY: as for Sync.
    unsafe impl Send for Written {}
    loom::model(|| {
        let shared = Arc::new(Written(MonitorSleep::new(), UnsafeCell::new(0)));
        assert_eq!(shared.0.worker_runs(), MonitorWas::Awake);
        let worker = spawn(&shared, |shared| {
            // SAFETY: the monitor thread does not read while a worker runs; the model checks that.
            shared.1.with_mut(|cell| unsafe { *cell = 1 });
            shared.0.worker_parks();
        });
        if shared.0.try_sleep() && shared.0.stays_asleep() {
            // SAFETY: written before the worker parked; the model checks that.
            assert_eq!(shared.1.with(|cell| unsafe { *cell }), 1);
        }
        worker.join().unwrap();
    });
}
