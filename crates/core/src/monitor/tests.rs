//! One step after the other.

use std::cell::{Cell, RefCell};

use super::*;

/// A timer and a clock that the test sets.
#[derive(Default)]
struct Hand {
    now_ns: Cell<u64>,
    settings: RefCell<Vec<u64>>,
}

impl Timer for Hand {
    fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    fn ring_at(&self, due_ns: u64) {
        self.settings.borrow_mut().push(due_ns);
    }
}

impl Hand {
    /// Lets time pass, and returns the settings since the last call.
    fn pass(&self, ns: u64) -> Vec<u64> {
        self.now_ns.set(self.now_ns.get() + ns);
        self.settings.take()
    }
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn the_first_worker_that_runs_sets_the_timer_and_the_last_that_parks_postpones_it() {
    let (alarm, hand) = (MonitorAlarm::new(), Hand::default());
    hand.pass(SECOND);
    assert!(alarm.may_sleep(SECOND));
    alarm.worker_runs(&hand);
    alarm.worker_runs(&hand);
    assert!(!alarm.may_sleep(SECOND), "two workers run");
    assert_eq!(hand.pass(1_000), [SECOND + SOON_NS]);
    alarm.worker_parks(&hand);
    assert_eq!(hand.pass(1_000), [0; 0], "one worker runs");
    alarm.worker_parks(&hand);
    assert_eq!(hand.pass(1_000), [SECOND + RARELY_NS]);
    alarm.worker_runs(&hand);
    assert_eq!(hand.pass(0), [SECOND + 3_000 + SOON_NS]);
}

/// Lets a worker run and park until the timer rings, `period_ns` from one run to the next. Returns
/// the time that passes, and the number of settings of the timer.
fn until_it_rings(alarm: &MonitorAlarm, hand: &Hand, period_ns: u64) -> (u64, usize) {
    let (begin, mut settings) = (hand.now_ns(), Vec::new());
    assert!(alarm.may_sleep(begin));
    while settings.last().is_none_or(|&due| due > hand.now_ns()) {
        alarm.worker_runs(hand);
        settings.extend(hand.pass(1_000));
        alarm.worker_parks(hand);
        settings.extend(hand.pass(period_ns - 1_000));
    }
    (hand.now_ns() - begin, settings.len())
}

#[test]
fn workers_that_park_all_the_time_are_looked_at_as_if_they_did_not() {
    let (alarm, hand) = (MonitorAlarm::new(), Hand::default());
    hand.pass(SECOND);
    let first = until_it_rings(&alarm, &hand, 20_000).0;
    assert!(first <= (u64::from(MOST_PARKS) + 1) * POSTPONE_NS + SOON_NS, "{first}");
    for _ in 0..10 {
        let (passed, settings) = until_it_rings(&alarm, &hand, 20_000);
        assert!(passed <= SOON_NS + 20_000 && settings == 1, "{passed}, {settings}");
    }
    // They rest, and may park again.
    hand.pass(SOON_NS);
    let passed = until_it_rings(&alarm, &hand, 20_000).0;
    assert!(passed > u64::from(MOST_PARKS) * POSTPONE_NS, "{passed}");
}

#[test]
fn workers_that_run_now_and_then_are_looked_at_once_a_second() {
    let (alarm, hand) = (MonitorAlarm::new(), Hand::default());
    hand.pass(SECOND);
    for _ in 0..3 {
        let (passed, settings) = until_it_rings(&alarm, &hand, SOON_NS + 1);
        assert!((RARELY_NS - SOON_NS..=RARELY_NS + SOON_NS).contains(&passed), "{passed}");
        assert!(settings as u64 <= 2 * RARELY_NS / SOON_NS + 2, "{settings}");
    }
}

#[test]
fn a_postponed_timer_is_set_again_if_a_worker_runs() {
    /// Runs a worker when the timer is set for the first time.
    struct Interrupts<'a>(&'a MonitorAlarm, Hand);
    impl Timer for Interrupts<'_> {
        fn now_ns(&self) -> u64 {
            self.1.now_ns()
        }
        fn ring_at(&self, due_ns: u64) {
            self.1.ring_at(due_ns);
            if self.1.settings.borrow().len() == 1 {
                self.0.awake.store(1, Ordering::Relaxed);
            }
        }
    }
    let alarm = MonitorAlarm::new();
    let hand = Interrupts(&alarm, Hand::default());
    hand.1.pass(SECOND);
    assert!(alarm.may_sleep(SECOND));
    alarm.awake.store(1, Ordering::Relaxed);
    alarm.worker_parks(&hand);
    assert_eq!(hand.1.pass(0), [SECOND + RARELY_NS, SECOND + SOON_NS]);
}
