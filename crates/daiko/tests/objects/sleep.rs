//! Workers that sleep while their fibers wait in segments, or do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use daiko::shm::{Event, Segment};
use daiko::{Builder, Preset, Runtime};

use crate::place::SHORT;
use crate::support::{until, workers, yield_until};

/// The agent of another worker ends the last wait of a worker while this worker falls asleep: in
/// some of the rounds, on some machines.
#[test]
fn a_worker_is_woken_where_it_sleeps_when_another_ends_its_last_wait() {
    const ROUNDS: u64 = 5_000;
    let segment = Segment::anonymous(1 << 20).unwrap();
    let go = Event::create(&segment, "go").unwrap();
    let runtime = Runtime::builder().workers(2).preset(Preset::Power).any_agent(true);
    let (runtime, rounds) = (runtime.build().unwrap(), Arc::new(AtomicU64::new(0)));
    let waits = {
        let (go, rounds) = (go.clone(), rounds.clone());
        move || {
            for _ in 0..ROUNDS {
                go.wait();
                go.reset();
                rounds.fetch_add(1, Ordering::Release);
            }
        }
    };
    let sets = {
        let rounds = rounds.clone();
        move || {
            for round in 0..ROUNDS {
                (0..round % 200).for_each(|_| std::hint::spin_loop());
                go.set();
                yield_until("the round", || rounds.load(Ordering::Acquire) > round);
            }
        }
    };
    let fibers = [
        runtime.spawn_with(Builder::new().on(0), waits).unwrap(),
        runtime.spawn_with(Builder::new().on(1), sets).unwrap(),
    ];
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

/// A waiter need not spin for such a worker, nor give the CPU to it.
#[test]
fn a_worker_that_sleeps_for_something_else_is_no_company() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let event = Event::create(&segment, "event").unwrap();
    let runtime = workers(1);
    runtime.run(move || assert!(event.wait_timeout(SHORT).is_err()));
    let own = segment.doorbell().unwrap();
    until("it sleeps", || own.company(None) == Default::default());
    runtime.run(|| ());
}

#[test]
fn doorbells_keep_a_segment_until_a_worker_sleeps_and_another_thread_waits_again() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let event = Event::create(&segment, "event").unwrap();
    let wait_elsewhere = |another: Segment| {
        assert!(Event::open(&another, "event").unwrap().wait_timeout(SHORT).is_err());
    };
    let attach = || segment.as_fd(Segment::from_fd).unwrap();
    let (runtime, another) = (workers(1), attach());
    runtime.run(move || wait_elsewhere(another));
    until("the worker sleeps", || segment.attached().len() == 1);
    wait_elsewhere(attach());
    assert_eq!(segment.attached().len(), 2);
    assert!(event.wait_timeout(SHORT).is_err());
    assert_eq!(segment.attached().len(), 1);
    std::thread::scope(|s| _ = s.spawn(|| wait_elsewhere(attach())));
    until("its end", || segment.attached().len() == 1);
}
