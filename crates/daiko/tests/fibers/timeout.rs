//! Timeouts around the calls of a fiber: they end any suspension, and nothing else.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::endless::{self, LONG};
use crate::support::{self, Drops, OnDrop, end, everywhere, workers, yield_until};
use daiko::sync::{Condvar, Mutex, Semaphore};
use daiko::time::{self, Elapsed};
use daiko::{Builder, Cancelled, JoinError, cancel};

/// A timeout that is over soon, but not before a fiber has suspended.
const SHORT: Duration = Duration::from_micros(100);
/// A timeout that is over from the beginning.
const OVER: Duration = Duration::ZERO;

fn caught<R>(body: impl FnOnce() -> R) -> Box<dyn Any + Send> {
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(_) => panic!("it did not unwind"),
        Err(payload) => payload,
    }
}

#[test]
fn every_kind_of_wait_ends_by_a_timeout_around_it() {
    everywhere(|| {
        let drops = Drops::default();
        for kind in 0..endless::KINDS {
            for timeout in [OVER, SHORT] {
                let token = drops.token();
                let ended = time::timeout(timeout, move || {
                    let _token = token;
                    endless::wait(kind);
                });
                assert_eq!(ended, Err(Elapsed), "{kind}");
                drops.assert_all();
                // A wait that was cut short disturbs no later wait.
                time::sleep(Duration::from_nanos(1));
            }
        }
    });
}

#[test]
fn a_result_that_is_there_is_returned_however_late() {
    everywhere(|| {
        assert_eq!(time::timeout(LONG, || 1), Ok(1));
        assert_eq!(time::timeout(Duration::MAX, || 2), Ok(2));
        assert_eq!(time::timeout(OVER, || 3), Ok(3));
        let late = Instant::now() + SHORT;
        let busy = || {
            while Instant::now() < late + SHORT {}
            4
        };
        assert_eq!(time::timeout(late, busy), Ok(4));
        assert_eq!(time::timeout(late, daiko::yield_now), Err(Elapsed));
        // The timeout has been forgotten.
        time::sleep(SHORT);
    });
}

#[test]
fn a_computing_fiber_can_ask_whether_its_time_is_over() {
    everywhere(|| {
        let asked = time::timeout(SHORT, || while !cancel::is_cancelled() {});
        assert_eq!(asked, Ok(()));
        assert!(!cancel::is_cancelled());
    });
}

#[test]
fn of_nested_timeouts_the_outermost_that_is_over_ends() {
    everywhere(|| {
        let inner_first = time::timeout(LONG, || {
            assert_eq!(time::timeout(SHORT, daiko::park), Err(Elapsed));
            time::sleep(SHORT);
            7
        });
        assert_eq!(inner_first, Ok(7));
        for inner in [LONG, OVER] {
            let outer = time::timeout(OVER, || {
                let _ = time::timeout(inner, daiko::yield_now);
                unreachable!("the outer one was over");
            });
            assert_eq!(outer, Err(Elapsed));
        }
        let outer_first = time::timeout(SHORT, || {
            let _ = time::timeout(LONG, || time::sleep(LONG));
            unreachable!("the outer one was over");
        });
        assert_eq!(outer_first, Err(Elapsed));
    });
}

#[test]
fn a_cancel_goes_through_all_timeouts() {
    everywhere(|| {
        let there = Arc::new(AtomicBool::new(false));
        let is_there = there.clone();
        let fiber = daiko::spawn(move || {
            let _ = time::timeout(LONG, || {
                let _ = time::timeout(LONG, || {
                    is_there.store(true, Ordering::Relaxed);
                    daiko::park();
                });
                unreachable!("it was cancelled");
            });
            unreachable!("it was cancelled");
        });
        yield_until("the fiber", || there.load(Ordering::Relaxed));
        fiber.cancel();
        assert!(matches!(fiber.join(), Err(JoinError::Cancelled)));
    });
}

#[test]
fn a_shield_keeps_the_timeouts_around_it_off_and_no_others() {
    everywhere(|| {
        let done = Cell::new(false);
        let ended = time::timeout(OVER, || {
            cancel::shield(|| {
                daiko::yield_now();
                time::sleep(SHORT);
                daiko::spawn(|| ()).join().unwrap();
                assert_eq!(time::timeout(SHORT, || time::sleep(LONG)), Err(Elapsed));
                done.set(true);
            });
            daiko::yield_now();
        });
        assert_eq!(ended, Err(Elapsed));
        assert!(done.get());
    });
}

#[test]
fn a_timeout_that_is_swallowed_comes_again() {
    everywhere(|| {
        let result = time::timeout(SHORT, || {
            for kind in [0, 2, 3, 14] {
                assert!(caught(|| endless::wait(kind)).is::<Cancelled>());
            }
            5
        });
        assert_eq!(result, Ok(5));
        daiko::yield_now();
    });
}

#[test]
fn a_timeout_leaves_an_unwinding_fiber_alone() {
    everywhere(|| {
        let done = Cell::new(0);
        let suspend = || {
            daiko::yield_now();
            time::sleep(SHORT);
            assert_eq!(time::timeout(OVER, daiko::yield_now), Ok(()));
            done.set(done.get() + 1);
        };
        let ended = time::timeout(OVER, || {
            let _ = time::timeout(OVER, || {
                let _suspends = OnDrop(suspend);
                daiko::yield_now();
            });
        });
        assert_eq!((ended, done.get()), (Err(Elapsed), 1));
        let payload = caught(|| {
            time::timeout(SHORT, || {
                let _suspends = OnDrop(|| time::sleep(2 * SHORT));
                panic::resume_unwind(Box::new(17u64));
            })
        });
        assert_eq!(payload.downcast_ref(), Some(&17u64), "a panic is not made a timeout");
    });
}

#[test]
fn a_panic_passes_and_poisons_also_after_a_timeout() {
    everywhere(|| {
        let payload = caught(|| time::timeout(LONG, || panic::resume_unwind(Box::new(17u64))));
        assert_eq!(payload.downcast_ref(), Some(&17u64));
        let mutex = Mutex::new(());
        let ended = time::timeout(OVER, || {
            let _held = mutex.lock().unwrap();
            assert!(!daiko::panicking());
            let _asks = OnDrop(|| assert!(!daiko::panicking()));
            daiko::yield_now();
        });
        assert_eq!(ended, Err(Elapsed));
        assert!(!mutex.is_poisoned());
        drop(caught(|| {
            let _held = mutex.lock().unwrap();
            panic::resume_unwind(Box::new(()));
        }));
        assert!(mutex.is_poisoned());
    });
}

#[test]
fn a_neighbour_that_suspends_in_its_unwinding_holds_up_no_end() {
    // SAFETY: the fibers keep no reference to a thread-local over a suspension.
    let runtime = unsafe { daiko::Runtime::builder().workers(1).borrowed() }.build().unwrap();
    runtime.run(|| {
        let neighbour = daiko::spawn(|| {
            let _parks = OnDrop(daiko::park);
            panic::resume_unwind(Box::new(()));
        });
        yield_until("the neighbour", thread::panicking);
        for kind in (0..endless::KINDS).filter(|&kind| kind != endless::BLOCKING) {
            let ended = time::timeout(OVER, || endless::wait(kind));
            assert_eq!(ended, Err(Elapsed), "{kind}");
        }
        neighbour.fiber().unpark();
        assert!(neighbour.join().unwrap_err().into_panic().is_ok());
    });
    end(runtime);
}

#[test]
fn a_payload_that_was_kept_does_not_end_a_timeout_in_the_same_place() {
    everywhere(|| {
        let mut kept = None;
        for turn in 0..2 {
            let timeout = if turn == 0 { OVER } else { LONG };
            let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
                time::timeout(timeout, || match kept.take() {
                    None => kept = Some(caught(daiko::yield_now)),
                    Some(payload) => panic::resume_unwind(payload),
                })
            }));
            match turn {
                0 => assert_eq!(outcome.unwrap(), Ok(())),
                _ => assert!(outcome.unwrap_err().is::<Cancelled>()),
            }
        }
    });
}

#[test]
fn of_end_and_timeout_exactly_one_comes() {
    everywhere(|| {
        let drops = Drops::default();
        let (mut ended, mut elapsed) = (0, 0);
        for lap in 0..1000u64 {
            let token = drops.token();
            let time = Duration::from_nanos(lap % 100 * 50);
            let result = time::timeout(time, move || {
                time::sleep(Duration::from_nanos(lap % 7 * 700));
                token
            });
            match result {
                Ok(_token) => ended += 1,
                Err(Elapsed) => elapsed += 1,
            }
            drops.assert_all();
        }
        assert_eq!(ended + elapsed, 1000);
    });
}

#[test]
fn values_handed_over_at_the_timeout_are_not_lost() {
    everywhere(|| {
        const PERMITS: u32 = 2;
        let shared = (Mutex::new([0; 2]), Condvar::new(), Semaphore::new(PERMITS));
        let shared = Arc::new(shared);
        let lap = |time: u64, (mutex, condvar, semaphore): &(Mutex<[u64; 2]>, Condvar, _)| {
            let _ = time::timeout(Duration::from_nanos(time), || {
                let _permit = Semaphore::acquire(semaphore);
                let mut counts = mutex.lock().unwrap();
                counts[0] += 1;
                cancel::shield(daiko::yield_now);
                counts[1] += 1;
                condvar.notify_one();
                drop(condvar.wait(counts));
            });
        };
        let fibers: Vec<_> = (0..8u64)
            .map(|index| {
                let shared = shared.clone();
                let builder = if index % 2 == 0 { Builder::new() } else { support::migratable() };
                let laps = move || (0..50).for_each(|time| lap(500 * (time + index), &shared));
                builder.spawn(laps).unwrap()
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        let counts = shared.0.try_lock().unwrap();
        assert_eq!(counts[0], counts[1]);
        assert_eq!(shared.2.available_permits(), PERMITS);
    });
}

#[test]
fn a_thousand_neighbours_time_out_each_for_itself() {
    for count in 1..=2 {
        let runtime = workers(count);
        runtime.run(|| {
            let drops = Drops::default();
            let fibers: Vec<_> = (0..1000u64)
                .map(|index| {
                    let token = drops.token();
                    daiko::spawn(move || {
                        let _token = token;
                        let time = Duration::from_nanos(index * 331);
                        let start = Instant::now();
                        let ended = time::timeout(time, || endless::wait(index as usize % 4));
                        assert_eq!(ended, Err(Elapsed));
                        assert!(start.elapsed() >= time);
                    })
                })
                .collect();
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            drops.assert_all();
        });
        end(runtime);
    }
}
