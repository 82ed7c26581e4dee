//! An owner that waits for work, or cancels it, and the runner of a thief that has claimed it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicU32;

use super::*;
use crate::modelled::{Sleep, spawn};

const OWNER_WAITS: WaiterId = WaiterId::for_test(64);

/// A runner, and how often it was cancelled.
struct Runner {
    made: UnsafeCell<bool>,
    cancels: AtomicU32,
}

/// The frame of the owner, and the runner, which stays longer.
struct Frame {
    work: Offered<Runner>,
    result: UnsafeCell<u32>,
    owner: Sleep,
    runner: Runner,
}

// SAFETY: the model checks that the protocol gives the cells to one thread at a time.
unsafe impl Sync for Frame {}
// SAFETY: as for Sync.
unsafe impl Send for Frame {}

impl Frame {
    fn new() -> Arc<Self> {
        let runner = Runner { made: UnsafeCell::new(false), cancels: AtomicU32::new(0) };
        let (work, result) = (Offered::new(), UnsafeCell::new(0));
        Arc::new(Frame { work, result, owner: Sleep::new(), runner })
    }

    /// Does the work; returns its state at the begin of the runner.
    fn run(&self) -> Begun {
        // SAFETY: no thread knows the runner yet: loom checks that.
        self.runner.made.with_mut(|made| unsafe { *made = true });
        let begun = self.work.begin(NonNull::from(&self.runner));
        // SAFETY: the owner looks at the result behind the end: loom checks that.
        self.result.with_mut(|result| unsafe { *result = 7 });
        // SAFETY: ended once; the frame stays.
        if let Some(owner) = unsafe { Offered::end(NonNull::from(&self.work)) } {
            assert_eq!(owner, OWNER_WAITS);
            self.owner.wake();
        }
        begun
    }

    /// Waits for the end as the owner does. The frame of the owner may go then.
    fn wait(&self) {
        if self.work.wait(OWNER_WAITS) {
            self.owner.wait();
        }
        assert!(self.work.has_ended());
        // SAFETY: the work has ended: loom checks that no thread writes it.
        assert_eq!(self.result.with(|result| unsafe { *result }), 7);
        self.work.reclaim();
    }
}

#[test]
fn an_owner_that_waits_sees_the_result_and_no_access_behind_it() {
    loom::model(|| {
        let frame = Frame::new();
        let runner = spawn(&frame, Frame::run);
        frame.wait();
        assert_eq!(runner.join().unwrap(), Begun::Wanted);
    });
}

#[test]
fn a_cancel_reaches_the_runner_once() {
    loom::model(|| {
        let frame = Frame::new();
        let runner = spawn(&frame, Frame::run);
        if let Some(runner) = frame.work.cancel() {
            // SAFETY: the runner stays as long as the model.
            let runner = unsafe { runner.as_ref() };
            // SAFETY: it was made before it began: loom checks that.
            assert!(runner.made.with(|made| unsafe { *made }));
            runner.cancels.fetch_add(1, Ordering::Relaxed);
        }
        frame.wait();
        let found = runner.join().unwrap() == Begun::Cancelled;
        let told = frame.runner.cancels.load(Ordering::Relaxed);
        assert_eq!(u32::from(found) + told, 1);
        assert_eq!(frame.work.runner(), Some(NonNull::from(&frame.runner)));
    });
}
