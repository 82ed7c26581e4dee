//! Workers that park and run again beside a monitor thread that goes to sleep.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};

use super::*;
use crate::modelled::{bounded, spawn};

const NOW: u64 = 1_000_000_000;

/// The timer; `None` once it has rung. The time stands still.
struct Kernel(Mutex<Option<u64>>);

impl Timer for Kernel {
    fn now_ns(&self) -> u64 {
        NOW
    }

    fn ring_at(&self, due_ns: u64) {
        *self.0.lock().unwrap() = Some(due_ns);
    }
}

struct Shared {
    alarm: MonitorAlarm,
    kernel: Kernel,
}

impl Shared {
    /// A timer that is set to ring soon, and workers that run.
    fn new(awake: u32) -> Arc<Self> {
        let shared = Self { alarm: MonitorAlarm::new(), kernel: Kernel(Mutex::new(None)) };
        (0..awake).for_each(|_| shared.runs());
        shared.alarm.set(&shared.kernel, NOW + 1);
        shared.alarm.looked_ns.store(NOW, Ordering::Relaxed);
        Arc::new(shared)
    }

    fn runs(&self) {
        self.alarm.worker_runs(&self.kernel);
    }

    fn parks(&self) {
        self.alarm.worker_parks(&self.kernel);
    }

    /// Checks the end of an execution that leaves a worker running.
    fn check(&self) {
        let due = *self.kernel.0.lock().unwrap();
        let soon = due.is_some_and(|due| due <= NOW + SOON_NS);
        assert!(soon, "a worker runs, and the monitor thread sleeps until {due:?}");
    }
}

/// A last worker that parks, and another that runs meanwhile.
#[test]
fn a_postponement_leaves_the_timer_of_a_worker_that_runs() {
    loom::model(|| {
        let shared = Shared::new(1);
        let parks = spawn(&shared, Shared::parks);
        shared.runs();
        parks.join().unwrap();
        shared.check();
    });
}

/// The timer must not be set later than the word in memory says once all have parked: the next
/// worker would rely on that.
#[test]
fn a_worker_that_runs_after_two_others_have_parked_is_looked_at_soon() {
    bounded(2, || {
        let shared = Shared::new(1);
        let first = spawn(&shared, Shared::parks);
        let second = spawn(&shared, |shared| {
            shared.runs();
            shared.parks();
        });
        first.join().unwrap();
        second.join().unwrap();
        shared.runs();
        shared.check();
    });
}

#[test]
fn a_worker_that_runs_is_seen_or_sets_the_timer_that_has_rung() {
    loom::model(|| {
        let shared = Shared::new(0);
        let worker = spawn(&shared, Shared::runs);
        shared.kernel.0.lock().unwrap().take();
        let sleeps = shared.alarm.may_sleep(NOW);
        worker.join().unwrap();
        if sleeps {
            shared.check();
        }
    });
}

#[test]
fn a_monitor_thread_that_sleeps_sees_the_writes_of_the_workers() {
    struct Written(Arc<Shared>, UnsafeCell<u32>);
    // SAFETY: the model checks that the cell is read once no worker runs.
    unsafe impl Sync for Written {}
    // SAFETY: as for Sync.
    unsafe impl Send for Written {}
    loom::model(|| {
        let shared = Arc::new(Written(Shared::new(1), UnsafeCell::new(0)));
        let worker = spawn(&shared, |shared| {
            // SAFETY: the monitor thread does not read while a worker runs; the model checks that.
            shared.1.with_mut(|cell| unsafe { *cell = 1 });
            shared.0.parks();
        });
        if shared.0.alarm.may_sleep(NOW) {
            // SAFETY: written before the worker parked; the model checks that.
            assert_eq!(shared.1.with(|cell| unsafe { *cell }), 1);
        }
        worker.join().unwrap();
    });
}
