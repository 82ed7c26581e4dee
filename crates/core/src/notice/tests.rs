use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread;

use super::*;
use crate::atomic::{AtomicBool, AtomicUsize};
use crate::fiber::Completion;

const WAITER: WaiterId = WaiterId::for_test(64);

#[test]
fn a_wake_during_a_poll_keeps_the_party_from_waiting() {
    let notice = Notice::new();
    assert!(!notice.is_woken());
    assert_eq!(notice.notify(), None);
    assert!(notice.is_woken() && !notice.wait(WAITER));
    notice.begin_poll();
    assert!(!notice.is_woken() && notice.wait(WAITER));
    assert_eq!(notice.notify(), Some(WAITER));
    assert_eq!(notice.notify(), None, "claimed before");
    assert!(!notice.leave(WAITER));
}

#[test]
fn a_wake_after_the_wait_was_left_reaches_no_waiter() {
    let notice = Notice::new();
    assert!(notice.wait(WAITER) && notice.leave(WAITER));
    assert_eq!(notice.notify(), None);
}

/// Unparks the thread that it names; `wakes` counts.
struct Unparker {
    notice: Notice,
    thread: thread::Thread,
    resumed: AtomicBool,
    wakes: AtomicUsize,
}

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        if self.notice.notify().is_some() {
            // Release: pairs with the Acquire of the waiting thread.
            self.resumed.store(true, Ordering::Release);
            self.thread.unpark();
        }
    }
}

/// A `block_on` for threads, as the runtime makes one, which Miri runs with many seeds.
#[test]
fn each_wake_between_threads_leads_to_a_poll() {
    const WAKES: usize = if cfg!(miri) { 4 } else { 1000 };
    let unparker = Arc::new(Unparker {
        notice: Notice::new(),
        thread: thread::current(),
        resumed: AtomicBool::new(false),
        wakes: AtomicUsize::new(0),
    });
    let sent = Arc::new(AtomicUsize::new(0));
    let wakers = [(); 2].map(|()| {
        let (waker, sent) = (Waker::from(unparker.clone()), sent.clone());
        thread::spawn(move || {
            for _ in 0..WAKES {
                // Relaxed: the wake publishes it.
                sent.fetch_add(1, Ordering::Relaxed);
                waker.wake_by_ref();
            }
        })
    });
    while sent.load(Ordering::Relaxed) < 2 * WAKES {
        if unparker.notice.wait(WAITER) {
            // Acquire: pairs with the Release of the waker.
            while !unparker.resumed.swap(false, Ordering::Acquire) {
                thread::park();
            }
        }
        unparker.notice.begin_poll();
    }
    wakers.into_iter().for_each(|waker| waker.join().unwrap());
    assert_eq!(unparker.wakes.load(Ordering::Relaxed), 2 * WAKES);
    assert_eq!(Arc::strong_count(&unparker), 1);
}

struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_held_waker_changes_its_task_and_is_freed() {
    let counters = [(); 2].map(|()| Arc::new(Counter(AtomicUsize::new(0))));
    let wakers = counters.clone().map(Waker::from);
    let held = HeldWaker::allocate(wakers[0].clone());
    // SAFETY: owned by this test, and not used after `take`.
    unsafe {
        HeldWaker::renew(held, &wakers[0]);
        assert_eq!(Arc::strong_count(&counters[0]), 3);
        HeldWaker::renew(held, &wakers[1]);
        assert_eq!(Arc::strong_count(&counters[0]), 2, "the old waker was dropped");
        HeldWaker::take(held).wake();
    }
    drop(wakers);
    assert_eq!(counters.each_ref().map(|counter| counter.0.load(Ordering::Relaxed)), [0, 1]);
    assert!(counters.iter().all(|counter| Arc::strong_count(counter) == 1));
}

/// The end that leaves the address of the held waker to the test.
#[test]
fn an_enrollment_is_replaced_left_and_refused_after_the_end() {
    let completion = Completion::new();
    let counter = Arc::new(Counter(AtomicUsize::new(0)));
    let waker = Waker::from(counter.clone());
    let mut published = NonNull::dangling();
    let mut enrollment = Enrollment::new();
    let enrolled = enrollment.enroll(&completion, &waker, |held| {
        published = held;
        WAITER
    });
    assert!(enrolled == Enrolled::Waits && completion.is_awaited());
    let again = enrollment.enroll(&completion, Waker::noop(), |_| unreachable!("it has one"));
    assert!(again == Enrolled::Waits && completion.is_awaited());
    assert_eq!(Arc::strong_count(&counter), 2, "replaced");
    enrollment.leave(&completion);
    assert!(!completion.is_awaited());
    let _ = enrollment.enroll(&completion, &waker, |held| {
        published = held;
        WAITER
    });
    assert_eq!(completion.finish(), crate::fiber::Finish::Wake(WAITER));
    assert_eq!(enrollment.enroll(&completion, &waker, |_| WAITER), Enrolled::Over);
    // SAFETY: the end has claimed the wait.
    unsafe { HeldWaker::take(published) }.wake();
    enrollment.leave(&completion);
    assert_eq!(enrollment.enroll(&completion, &waker, |_| WAITER), Enrolled::Over);
    drop(waker);
    assert_eq!((counter.0.load(Ordering::Relaxed), Arc::strong_count(&counter)), (1, 1));
}
