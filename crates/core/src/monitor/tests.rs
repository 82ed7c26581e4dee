//! One step after the other.

use super::*;

#[test]
fn the_first_worker_that_runs_wakes_the_monitor_thread_once() {
    let monitor = MonitorSleep::new();
    assert!(monitor.try_sleep() && monitor.stays_asleep());
    assert_eq!(monitor.word().load(Ordering::Relaxed), MonitorSleep::ASLEEP);
    assert_eq!(monitor.worker_runs(), MonitorWas::Asleep);
    assert_eq!(monitor.worker_runs(), MonitorWas::Awake);
    assert!(!monitor.stays_asleep() && !monitor.try_sleep(), "two workers run");
    monitor.worker_parks();
    assert!(!monitor.try_sleep(), "one worker runs");
    monitor.worker_parks();
    assert!(monitor.try_sleep() && monitor.stays_asleep());
}

#[test]
fn a_monitor_thread_that_sees_a_worker_run_takes_its_mark_back() {
    let monitor = MonitorSleep::new();
    assert!(monitor.try_sleep());
    // The worker came between the mark and the look, and has not looked at the word yet.
    monitor.awake.store(1, Ordering::Relaxed);
    assert!(!monitor.stays_asleep());
    assert_eq!(monitor.word().load(Ordering::Relaxed), MonitorSleep::WATCHING);
}

#[test]
fn the_end_is_final() {
    let monitor = MonitorSleep::new();
    assert!(monitor.try_sleep());
    monitor.end();
    assert!(!monitor.stays_asleep());
    assert_eq!(monitor.worker_runs(), MonitorWas::Awake);
    monitor.worker_parks();
    assert!(!monitor.try_sleep() && monitor.is_ending());
}
