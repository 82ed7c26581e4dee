//! A worker that parks while another makes work, through the real injector and the real ring.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::barrier::Fences;
use crate::element::{Element, boxed, take};
use crate::injector::Injector;
use crate::lock::testing::Tester;
use crate::queue::StealQueue;

struct Shared {
    idle: IdleSet,
    injector: Injector<Element>,
    ring: StealQueue<Element>,
}

// SAFETY: elements are handed over by the queues.
unsafe impl Send for Shared {}
// SAFETY: as for Send.
unsafe impl Sync for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { idle: IdleSet::new(2), injector: Injector::new(), ring: StealQueue::new() })
    }

    fn looks_empty(&self) -> bool {
        self.injector.is_empty() && self.ring.steal().is_empty()
    }

    fn parks(&self, worker: usize) -> bool {
        self.idle.announce(worker, &Fences);
        if self.looks_empty() {
            return true;
        }
        let _ = self.idle.retract(worker);
        false
    }
}

#[test]
fn work_in_the_injector_finds_a_parked_worker() {
    loom::model(|| {
        let shared = Shared::new();
        let other = shared.clone();
        let parker = thread::spawn(move || other.parks(0));
        // SAFETY: fresh; freed below.
        unsafe { shared.injector.push(&Tester(2), boxed(1)) };
        let picked = shared.idle.pick_one(&Fences, |_| true);
        let sleeps = parker.join().unwrap();
        assert!(!sleeps || picked == Some(0), "work lies there and its worker sleeps");
        shared.injector.pop(&Tester(2)).map(take);
    });
}

#[test]
fn work_in_the_injector_finds_a_worker_that_is_new() {
    loom::model(|| {
        let (idle, injector) = (IdleSet::new(0), Injector::new());
        let shared = Arc::new(Shared { idle, injector, ring: StealQueue::new() });
        let other = shared.clone();
        let parker = thread::spawn(move || {
            other.idle.grow(1);
            other.parks(0)
        });
        // SAFETY: fresh; freed below.
        unsafe { shared.injector.push(&Tester(2), boxed(1)) };
        let picked = shared.idle.pick_one(&Fences, |_| true);
        let sleeps = parker.join().unwrap();
        assert!(!sleeps || picked == Some(0), "work lies there and its worker sleeps");
        shared.injector.pop(&Tester(2)).map(take);
    });
}

#[test]
fn work_in_a_ring_finds_a_parked_worker() {
    loom::model(|| {
        let shared = Shared::new();
        let other = shared.clone();
        let parker = thread::spawn(move || other.parks(1));
        // SAFETY: the only owner.
        let local = unsafe { shared.ring.local() };
        // SAFETY: fresh; freed below.
        assert!(unsafe { local.push(boxed(1)) }.is_ok());
        let picked = shared.idle.pick_one(&Fences, |_| true);
        let sleeps = parker.join().unwrap();
        assert!(!sleeps || picked == Some(1), "work lies there and its worker sleeps");
        local.pop().map(take);
    });
}

#[test]
fn one_worker_is_picked_once() {
    loom::model(|| {
        let idle = Arc::new(IdleSet::new(2));
        idle.announce(1, &Fences);
        let other = idle.clone();
        let picker = thread::spawn(move || other.pick_one(&Fences, |_| true));
        let picked = idle.pick_one(&Fences, |_| true);
        let retracted = idle.retract(1);
        let both = [picked, picker.join().unwrap()];
        let ends = both.iter().flatten().count() + usize::from(retracted);
        assert_eq!(ends, 1, "{both:?}, retracted: {retracted}");
    });
}

#[test]
fn a_worker_that_was_picked_sees_the_writes_before() {
    struct Picked(IdleSet, UnsafeCell<u32>);
    // SAFETY: the model checks that the cell is read behind the pick alone.
    unsafe impl Sync for Picked {}
    // SAFETY: as for Sync.
    unsafe impl Send for Picked {}
    loom::model(|| {
        let shared = Arc::new(Picked(IdleSet::new(1), UnsafeCell::new(0)));
        shared.0.announce(0, &Fences);
        let other = shared.clone();
        let picker = thread::spawn(move || {
            // SAFETY: the worker reads it once it was picked; the model checks that.
            other.1.with_mut(|cell| unsafe { *cell = 1 });
            let _ = other.0.pick_one(&Fences, |_| true);
        });
        if !shared.0.retract(0) {
            // SAFETY: written before the pick; the model checks that.
            assert_eq!(shared.1.with(|cell| unsafe { *cell }), 1);
        }
        picker.join().unwrap();
    });
}
