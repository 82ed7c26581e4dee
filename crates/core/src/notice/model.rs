//! A future with its wakers, and the end of a fiber with the future that awaits it.

use std::ptr::NonNull;
use std::sync::Arc as PlainArc;
use std::task::{Wake, Waker};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::atomic::AtomicUsize;
use crate::fiber::{Completion, Finish};

/// The party that polls.
const POLLER: WaiterId = WaiterId::for_test(64);

struct Polled {
    notice: Notice,
    /// Data that each waker writes before its wake, and the poll reads.
    written: [UnsafeCell<bool>; 2],
    /// Set once the waker has written: the future is ready once both have.
    ready: [AtomicUsize; 2],
    /// The number of wakes that are complete.
    woken: AtomicUsize,
    /// Stands for the frame of the waiter, which a claimant reads.
    frame: UnsafeCell<()>,
}

// SAFETY: the model checks that the protocol gives each cell to one thread at a time.
unsafe impl Sync for Polled {}
// SAFETY: as for Sync.
unsafe impl Send for Polled {}

impl Polled {
    fn new() -> Arc<Self> {
        Arc::new(Polled {
            notice: Notice::new(),
            written: [UnsafeCell::new(false), UnsafeCell::new(false)],
            ready: [AtomicUsize::new(0), AtomicUsize::new(0)],
            woken: AtomicUsize::new(0),
            frame: UnsafeCell::new(()),
        })
    }

    /// Makes part `index` ready, and wakes. Returns true if a waiter is to be resumed.
    fn wake(&self, index: usize) -> bool {
        self.written[index].with_mut(|_| ());
        self.ready[index].store(1, Ordering::Relaxed);
        let claimed = self.notice.notify();
        self.woken.fetch_add(1, Ordering::Relaxed);
        match claimed {
            Some(POLLER) => {
                self.frame.with(|_| ());
                true
            }
            Some(_) => unreachable!("there is no other waiter"),
            None => false,
        }
    }
}

fn spawn_wake(polled: &Arc<Polled>, index: usize) -> thread::JoinHandle<bool> {
    let polled = polled.clone();
    thread::spawn(move || polled.wake(index))
}

#[test]
fn a_wake_meets_the_wait_after_a_poll() {
    loom::model(|| {
        let polled = Polled::new();
        let waker = spawn_wake(&polled, 0);
        let pending = polled.ready[0].load(Ordering::Relaxed) == 0;
        polled.frame.with_mut(|_| ());
        let waits = pending && polled.notice.wait(POLLER);
        let resumed = waker.join().unwrap();
        assert_eq!(resumed, waits, "asleep for ever, or resumed without a wait");
    });
}

#[test]
fn a_poll_sees_what_was_written_before_each_earlier_wake() {
    loom::model(|| {
        let polled = Polled::new();
        let wakers = [spawn_wake(&polled, 0), spawn_wake(&polled, 1)];
        // The count publishes nothing, so the poll alone has to acquire.
        if polled.woken.load(Ordering::Relaxed) == 2 {
            polled.notice.begin_poll();
            polled.written.iter().for_each(|written| written.with(|_| ()));
        }
        assert_eq!(wakers.map(|waker| waker.join().unwrap()), [false; 2]);
    });
}

#[test]
fn no_wake_is_lost_between_two_polls() {
    loom::model(|| {
        let polled = Polled::new();
        let wakers = [spawn_wake(&polled, 0), spawn_wake(&polled, 1)];
        if polled.notice.is_woken() {
            polled.notice.begin_poll();
            let seen = [0, 1].map(|index| polled.ready[index].load(Ordering::Relaxed) == 1);
            let waits = seen != [true; 2] && polled.notice.wait(POLLER);
            let resumed = wakers.map(|waker| waker.join().unwrap());
            assert!(!waits || resumed.contains(&true), "asleep for ever");
        }
    });
}

#[test]
fn a_wake_meets_a_waiter_that_leaves() {
    loom::model(|| {
        let polled = Polled::new();
        polled.frame.with_mut(|_| ());
        assert!(polled.notice.wait(POLLER));
        let waker = spawn_wake(&polled, 0);
        let left = polled.notice.leave(POLLER);
        if left {
            // The frame is gone.
            polled.frame.with_mut(|_| ());
        }
        assert_eq!(waker.join().unwrap(), !left, "a wake without a wait, or none");
    });
}

/// Counts its wakes.
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: PlainArc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counter {
    fn new() -> PlainArc<Self> {
        PlainArc::new(Counter(AtomicUsize::new(0)))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

struct Awaited {
    completion: Completion,
    result: UnsafeCell<()>,
}

// SAFETY: the model checks that the protocol gives the result to one thread at a time.
unsafe impl Sync for Awaited {}
// SAFETY: as for Sync.
unsafe impl Send for Awaited {}

fn id_of(held: NonNull<HeldWaker>) -> WaiterId {
    // SAFETY: an address; `end` finds the held waker by it.
    unsafe { WaiterId::from_bits(held.as_ptr().expose_provenance() as u64) }
}

/// Ends the fiber, on a thread of its own; returns true if that woke a waker.
fn spawn_end(awaited: &Arc<Awaited>) -> thread::JoinHandle<bool> {
    let awaited = awaited.clone();
    thread::spawn(move || {
        awaited.result.with_mut(|_| ());
        let Finish::Wake(id) = awaited.completion.finish() else { return false };
        let held = std::ptr::with_exposed_provenance_mut::<HeldWaker>(id.bits() as usize);
        // SAFETY: the end has claimed the wait, and so the held waker.
        unsafe { HeldWaker::take(NonNull::new(held).unwrap()) }.wake();
        true
    })
}

fn awaited() -> Arc<Awaited> {
    Arc::new(Awaited { completion: Completion::new(), result: UnsafeCell::new(()) })
}

#[test]
fn the_end_meets_a_future_that_begins_to_wait() {
    loom::model(|| {
        let (awaited, counter) = (awaited(), Counter::new());
        let mut enrollment = Enrollment::new();
        let waker = Waker::from(counter.clone());
        let end = spawn_end(&awaited);
        let enrolled = enrollment.enroll(&awaited.completion, &waker, id_of);
        if enrolled == Enrolled::Over {
            awaited.result.with(|_| ());
        }
        assert_eq!(end.join().unwrap(), enrolled == Enrolled::Waits);
        assert_eq!(counter.count(), usize::from(enrolled == Enrolled::Waits));
        enrollment.leave(&awaited.completion);
        drop(waker);
        assert_eq!(PlainArc::strong_count(&counter), 1, "a waker is left over");
    });
}

#[test]
fn the_end_meets_a_future_whose_waker_changes() {
    loom::model(|| {
        let (awaited, counters) = (awaited(), [Counter::new(), Counter::new()]);
        let mut enrollment = Enrollment::new();
        let wakers = counters.clone().map(Waker::from);
        assert_eq!(enrollment.enroll(&awaited.completion, &wakers[0], id_of), Enrolled::Waits);
        let end = spawn_end(&awaited);
        let enrolled = enrollment.enroll(&awaited.completion, &wakers[1], id_of);
        if enrolled == Enrolled::Over {
            awaited.result.with(|_| ());
        }
        let woke = end.join().unwrap();
        let counts = counters.each_ref().map(|counter| counter.count());
        match enrolled {
            Enrolled::Waits => assert!(woke && counts == [0, 1], "the old waker was woken"),
            Enrolled::Over => assert!(counts[1] == 0 && counts[0] == usize::from(woke)),
        }
        enrollment.leave(&awaited.completion);
        drop(wakers);
        assert!(counters.iter().all(|counter| PlainArc::strong_count(counter) == 1));
    });
}

#[test]
fn the_end_meets_the_drop_of_a_future() {
    loom::model(|| {
        let (awaited, counter) = (awaited(), Counter::new());
        let mut enrollment = Enrollment::new();
        let waker = Waker::from(counter.clone());
        assert_eq!(enrollment.enroll(&awaited.completion, &waker, id_of), Enrolled::Waits);
        drop(waker);
        let end = spawn_end(&awaited);
        enrollment.leave(&awaited.completion);
        let woke = end.join().unwrap();
        assert_eq!(counter.count(), usize::from(woke));
        assert_eq!(PlainArc::strong_count(&counter), 1, "the waker was dropped once");
    });
}
