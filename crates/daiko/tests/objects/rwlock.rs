use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use daiko::shm::{Cause, RwLock, Segment, TimedLockError, TryLockError};
use proptest::prelude::*;

use crate::place::{LONG, Place, SHORT, rest, role, theirs};
use crate::support::child::is_child;
use crate::support::{panic_of, until, workers, yield_until};

type Pair = [u64; 2];

fn lock(segment: &Segment) -> RwLock<Pair> {
    RwLock::open_or_create(segment, "lock", [0; 2]).unwrap()
}

/// Returns the poison that a reader gets, and the value.
fn read(lock: &RwLock<Pair>) -> (Option<Cause>, Pair) {
    match lock.read_timeout(LONG) {
        Ok(guard) => (None, *guard),
        Err(TimedLockError::Poisoned(error)) => (Some(error.cause()), *error.into_inner()),
        Err(TimedLockError::TimedOut) => panic!("the lock is lost"),
    }
}

/// Returns the poison that a writer gets.
fn write(lock: &RwLock<Pair>) -> Option<Cause> {
    match lock.write_timeout(LONG) {
        Ok(_) => None,
        Err(TimedLockError::Poisoned(error)) => Some(error.cause()),
        Err(TimedLockError::TimedOut) => panic!("the lock is lost"),
    }
}

#[test]
fn readers_and_writers_of_two_processes_exclude_each_other() {
    const NAME: &str = "rwlock::readers_and_writers_of_two_processes_exclude_each_other";
    const EACH: u64 = 1000;
    fn work(segment: &Segment) {
        let lock = lock(segment);
        let runtime = workers(2);
        let fibers: Vec<_> = (0..4)
            .map(|_| {
                let lock = lock.clone();
                runtime.spawn(move || {
                    for at in 0..EACH {
                        let pair = lock.read().unwrap();
                        assert_eq!(pair[0], pair[1]);
                        if at % 8 == 0 {
                            daiko::yield_now();
                        }
                        drop(pair);
                        let mut pair = lock.write().unwrap();
                        pair[0] += 1;
                        assert_eq!(pair[0], pair[1] + 1);
                        pair[1] += 1;
                    }
                })
            })
            .collect();
        (0..EACH).for_each(|_| {
            let pair = lock.read().unwrap();
            assert_eq!(pair[0], pair[1]);
        });
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    }
    if is_child() {
        return work(&theirs());
    }
    let place = Place::new("rwlock");
    let lock = lock(&place.segment);
    let mut child = place.child(NAME);
    work(&place.segment);
    child.ends_well();
    assert_eq!(read(&lock), (None, [8 * EACH; 2]));
}

#[test]
fn a_killed_writer_is_learned_of_once_and_a_killed_reader_never() {
    const NAME: &str = "rwlock::a_killed_writer_is_learned_of_once_and_a_killed_reader_never";
    if is_child() {
        let segment = theirs();
        let lock = lock(&segment);
        if role() == "read" {
            let _guard = lock.read().unwrap();
            rest(&segment, "held");
        }
        let mut guard = lock.write().unwrap();
        guard[0] = 7;
        rest(&segment, "held");
    }
    let place = Place::new("killed");
    let (lock, held) = (lock(&place.segment), place.event("held"));
    let runtime = workers(1);
    for (role, waits_to_write) in [("read", true), ("write", true), ("write", false)] {
        let child = place.child_as(NAME, role);
        held.wait();
        assert!(held.reset());
        assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        assert_eq!(lock.try_read().is_ok(), role == "read");
        let began = Arc::new(AtomicBool::new(false));
        let (begins, waits) = (began.clone(), lock.clone());
        let waiter = runtime.spawn(move || {
            begins.store(true, Ordering::Relaxed);
            if waits_to_write { write(&waits) } else { read(&waits).0 }
        });
        let (blocks, begins) = (lock.clone(), began.clone());
        let thread = thread::spawn(move || {
            until("a waiter", || begins.load(Ordering::Relaxed));
            if waits_to_write { write(&blocks) } else { read(&blocks).0 }
        });
        until("a waiter", || began.load(Ordering::Relaxed));
        child.kill();
        let mut told = [waiter.join().unwrap(), thread.join().unwrap()];
        told.sort_by_key(|told| *told != Some(Cause::OwnerDied));
        let expected = match role {
            "read" => [None; 2],
            _ => [Some(Cause::OwnerDied), Some(Cause::Poisoned)],
        };
        assert_eq!(told, expected, "{role} {waits_to_write}");
        assert_eq!(lock.is_poisoned(), role == "write");
        let guard = lock.write();
        lock.clear_poison();
        drop(guard);
        assert_eq!(read(&lock), (None, [0; 2]));
    }
}

#[test]
fn a_writer_in_another_process_is_not_starved_by_readers_that_overlap() {
    const NAME: &str = "rwlock::a_writer_in_another_process_is_not_starved_by_readers_that_overlap";
    if is_child() {
        let lock = lock(&theirs());
        lock.write().unwrap()[0] = 1;
        return;
    }
    let place = Place::new("starved");
    let lock = lock(&place.segment);
    let runtime = workers(1);
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let lock = lock.clone();
            // At each time at least one fiber reads, apart from the writer.
            runtime.spawn(move || {
                loop {
                    let guard = lock.read().unwrap();
                    daiko::yield_now();
                    if guard[0] == 1 {
                        return;
                    }
                }
            })
        })
        .collect();
    let mut child = place.child(NAME);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    child.ends_well();
}

#[test]
fn readers_of_one_process_share_a_handle_or_not() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let (lock, handle) = (lock(&segment), lock(&segment));
    let other = segment.as_fd(Segment::from_fd).unwrap();
    let elsewhere = crate::rwlock::lock(&other);
    let (one, two) = (lock.read().unwrap(), handle.read().unwrap());
    let three = elsewhere.read().unwrap();
    drop(one);
    assert!(matches!(elsewhere.try_write(), Err(TryLockError::WouldBlock)));
    drop(three);
    assert!(matches!(elsewhere.try_write(), Err(TryLockError::WouldBlock)), "{two:?}");
    assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
    drop(two);
    let mut writer = elsewhere.try_write().unwrap();
    assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
    assert!(matches!(handle.try_write(), Err(TryLockError::WouldBlock)));
    *writer = [3, 4];
    drop(writer);
    assert_eq!(*handle.try_read().unwrap(), [3, 4]);
}

#[test]
fn a_waiting_writer_keeps_readers_of_all_processes_out() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let other = segment.as_fd(Segment::from_fd).unwrap();
    let (here, there) = (lock(&segment), lock(&other));
    let reader = here.read().unwrap();
    let writer = thread::spawn(move || drop(there.write().unwrap()));
    until("the writer waits", || matches!(here.try_read(), Err(TryLockError::WouldBlock)));
    assert!(matches!(here.read_timeout(SHORT), Err(TimedLockError::TimedOut)));
    drop(reader);
    writer.join().unwrap();
    assert_eq!(read(&here), (None, [0; 2]));
}

#[test]
fn a_writer_that_gives_up_lets_readers_in() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let other = segment.as_fd(Segment::from_fd).unwrap();
    let (here, there) = (lock(&segment), lock(&other));
    workers(1).run(move || {
        let reader = here.read().unwrap();
        assert!(matches!(there.write_timeout(SHORT), Err(TimedLockError::TimedOut)));
        drop(here.try_read().unwrap());
        let began = AtomicUsize::new(0);
        daiko::scope(|s| {
            let writer = s.spawn(|| {
                began.store(1, Ordering::Relaxed);
                drop(there.write());
            });
            yield_until("a writer", || began.load(Ordering::Relaxed) == 1);
            let waits = s.spawn(|| read(&here));
            daiko::yield_now();
            writer.cancel();
            assert!(writer.join().is_err());
            assert_eq!(waits.join().unwrap(), (None, [0; 2]), "while another reads");
        });
        drop(reader);
        drop(there.try_write().unwrap());
    });
}

#[test]
fn a_writers_panic_poisons_and_a_readers_does_not() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let lock = lock(&segment);
    panic_of(|| {
        let _guard = lock.read().unwrap();
        panic!("on purpose");
    });
    assert_eq!(read(&lock), (None, [0; 2]));
    panic_of(|| {
        lock.write().unwrap()[1] = 5;
        let _guard = lock.write().unwrap();
        panic!("on purpose");
    });
    assert_eq!(read(&lock), (Some(Cause::Poisoned), [0, 5]));
    assert!(matches!(lock.try_write(), Err(TryLockError::Poisoned(_))));
    lock.clear_poison();
    assert_eq!(write(&lock), None);
}

#[test]
fn waits_end_at_their_deadlines() {
    const NAME: &str = "rwlock::waits_end_at_their_deadlines";
    if is_child() {
        let segment = theirs();
        let lock = lock(&segment);
        let _guard = lock.write().unwrap();
        rest(&segment, "held");
    }
    let place = Place::new("deadlines");
    let lock = lock(&place.segment);
    let _child = place.child(NAME);
    place.event("held").wait();
    let waits = move || {
        for timeout in [Duration::ZERO, SHORT] {
            assert!(matches!(lock.read_timeout(timeout), Err(TimedLockError::TimedOut)));
            assert!(matches!(lock.write_timeout(timeout), Err(TimedLockError::TimedOut)));
            let deadline = Instant::now() + timeout;
            assert!(matches!(lock.read_timeout(deadline), Err(TimedLockError::TimedOut)));
            assert!(matches!(lock.write_timeout(deadline), Err(TimedLockError::TimedOut)));
        }
    };
    waits();
    workers(1).run(waits);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Read(usize),
    Write(usize),
    /// Frees the guard that was taken last or first.
    LetGo {
        last: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3usize).prop_map(Step::Read),
        2 => (0..3usize).prop_map(Step::Write),
        4 => any::<bool>().prop_map(|last| Step::LetGo { last }),
    ]
}

proptest! {
    /// Any handle of any process acts as one lock of `std`.
    #[test]
    fn it_can_be_had_when_a_lock_of_std_can(steps in prop::collection::vec(step(), 0..100)) {
        let segment = Segment::anonymous(1 << 20).unwrap();
        let other = segment.as_fd(Segment::from_fd).unwrap();
        let ours = [lock(&segment), lock(&segment), lock(&other)];
        let theirs = std::sync::RwLock::new([0u64; 2]);
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for (at, step) in (1..).zip(steps) {
            match step {
                Step::Read(holder) => match (ours[holder].try_read(), theirs.try_read()) {
                    (Ok(ours), Ok(theirs)) => {
                        prop_assert_eq!(*ours, *theirs);
                        reads.push((ours, theirs));
                    }
                    (ours, theirs) => prop_assert_eq!(ours.is_ok(), theirs.is_ok()),
                },
                Step::Write(holder) => match (ours[holder].try_write(), theirs.try_write()) {
                    (Ok(mut ours), Ok(mut theirs)) => {
                        prop_assert_eq!(*ours, *theirs);
                        (*ours, *theirs) = ([at; 2], [at; 2]);
                        writes.push((ours, theirs));
                    }
                    (ours, theirs) => prop_assert_eq!(ours.is_ok(), theirs.is_ok()),
                },
                Step::LetGo { .. } if writes.pop().is_some() => {}
                Step::LetGo { last: true } => drop(reads.pop()),
                Step::LetGo { last: false } => drop((!reads.is_empty()).then(|| reads.remove(0))),
            }
        }
    }
}
