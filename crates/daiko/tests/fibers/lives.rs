//! Spawning, parking, waking and joining, from fibers and from threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::support::small_stack;
use daiko::{Builder, JoinError, JoinHandle, Runtime};

fn on(workers: usize, f: impl FnOnce() + Send + 'static) {
    let runtime = Runtime::builder().workers(workers).build().unwrap();
    runtime.run(f);
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked), (0, 0));
}

fn flag() -> (Arc<AtomicBool>, Arc<AtomicBool>) {
    let flag = Arc::new(AtomicBool::new(false));
    (flag.clone(), flag)
}

#[test]
fn results_come_back_from_many_fibers() {
    for workers in 1..=3 {
        on(workers, || {
            let fibers: Vec<_> = (0..1000_u64).map(|i| daiko::spawn(move || i)).collect();
            let sum: u64 = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
            assert_eq!(sum, 499_500);
        });
    }
}

/// The runtime's own pool as well as a worker's gives out the stack that is warmest. Stacks of
/// another size than the runtime's are in the former only.
#[test]
fn the_stack_that_came_back_last_is_taken_first() {
    fn spawn() -> JoinHandle<usize> {
        let fiber = Builder::new().stack_size(small_stack(128 << 10)).on(0).spawn(|| {
            let frame = 0_u8;
            daiko::park();
            std::ptr::from_ref(std::hint::black_box(&frame)).addr()
        });
        let fiber = fiber.unwrap();
        daiko::yield_now();
        fiber.fiber().unpark();
        fiber
    }
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let main = runtime.spawn_with(Builder::new().on(0), || {
        let [first, second] = [spawn(), spawn()];
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        assert_ne!(first, second);
        assert_eq!(spawn().join().unwrap(), second);
        assert_eq!([spawn(), spawn()].map(|fiber| fiber.join().unwrap()), [second, first]);
    });
    main.unwrap().join().unwrap();
}

#[test]
fn a_ring_of_parked_fibers_turns() {
    for workers in 1..=3 {
        on(workers, || {
            const N: usize = 10;
            const LAPS: u64 = 1000;
            let buffers: Arc<Vec<AtomicU64>> =
                Arc::new((0..N).map(|_| AtomicU64::new(0)).collect());
            let fibers: Arc<Vec<std::sync::OnceLock<daiko::Fiber>>> =
                Arc::new((0..N).map(|_| std::sync::OnceLock::new()).collect());
            let handles: Vec<_> = (0..N)
                .map(|i| {
                    let (buffers, fibers) = (buffers.clone(), fibers.clone());
                    daiko::spawn(move || {
                        for lap in 1..=LAPS {
                            while buffers[i].load(Ordering::Acquire) != lap {
                                daiko::park();
                            }
                            if i + 1 < N {
                                buffers[i + 1].store(lap, Ordering::Release);
                                fibers[i + 1].get().unwrap().unpark();
                            } else if lap < LAPS {
                                buffers[0].store(lap + 1, Ordering::Release);
                                fibers[0].get().unwrap().unpark();
                            }
                        }
                    })
                })
                .collect();
            for (i, handle) in handles.iter().enumerate() {
                fibers[i].set(handle.fiber().clone()).unwrap();
            }
            buffers[0].store(1, Ordering::Release);
            fibers[0].get().unwrap().unpark();
            handles.into_iter().for_each(|handle| handle.join().unwrap());
        });
    }
}

#[test]
fn a_panic_reaches_only_the_joiner() {
    on(1, || {
        let fiber = daiko::spawn(|| panic!("boom"));
        let payload = fiber.join().unwrap_err().into_panic().unwrap();
        assert_eq!(*payload.downcast::<&str>().unwrap(), "boom");
    });
}

#[test]
fn an_unpark_before_the_start_is_kept() {
    on(1, || {
        let fiber = daiko::spawn(daiko::park);
        fiber.fiber().unpark();
        fiber.join().unwrap();
    });
}

#[test]
fn a_fiber_cannot_join_itself() {
    on(1, || {
        let slot = Arc::new(std::sync::Mutex::new(None));
        let own = slot.clone();
        let fiber = daiko::spawn(move || {
            daiko::yield_now();
            let own: daiko::JoinHandle<bool> = own.lock().unwrap().take().unwrap();
            matches!(own.join(), Err(JoinError::Itself))
        });
        *slot.lock().unwrap() = Some(fiber);
        daiko::yield_now();
        while slot.lock().unwrap().is_some() {
            daiko::yield_now();
        }
    });
}

#[test]
fn threads_spawn_wake_and_join() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for _ in 0..100 {
        let flag = Arc::new(AtomicBool::new(false));
        let seen = flag.clone();
        let fiber = runtime.spawn(move || {
            while !seen.load(Ordering::Acquire) {
                daiko::park();
            }
        });
        flag.store(true, Ordering::Release);
        fiber.fiber().unpark();
        fiber.join().unwrap();
    }
}

#[test]
fn an_unpark_of_a_finished_fiber_does_nothing() {
    on(2, || {
        let fiber = daiko::spawn(|| ());
        let handle = fiber.fiber().clone();
        fiber.join().unwrap();
        handle.unpark();
    });
}

#[test]
fn memory_is_not_used_again_while_an_unpark_of_its_last_fiber_is_under_way() {
    fn stack() -> usize {
        let here = 0_u8;
        std::ptr::from_ref(std::hint::black_box(&here)).addr()
    }
    let main = || {
        let (starts, started) = flag();
        let (go, seen) = flag();
        let fiber = daiko::Builder::new().on(1).spawn(move || {
            starts.store(true, Ordering::Release);
            while !seen.load(Ordering::Acquire) {
                daiko::park();
            }
            stack()
        });
        let fiber = fiber.unwrap();
        while !started.load(Ordering::Acquire) {
            daiko::yield_now();
        }
        // This unpark learns where the fiber is; those that follow do not look it up.
        fiber.fiber().unpark();
        go.store(true, Ordering::Release);
        while !fiber.is_finished() {
            fiber.fiber().unpark();
        }
        let (busy, is_busy) = flag();
        let (end, ends) = flag();
        let keeps_the_worker = daiko::Builder::new().on(1).spawn(move || {
            busy.store(true, Ordering::Release);
            while !ends.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
        });
        while !is_busy.load(Ordering::Acquire) {
            daiko::yield_now();
        }
        fiber.fiber().unpark();
        let before = fiber.join().unwrap();
        let after = daiko::Builder::new().on(0).spawn(stack).unwrap().join().unwrap();
        assert!(before.abs_diff(after) >= 64 << 10, "the same stack");
        end.store(true, Ordering::Release);
        keeps_the_worker.unwrap().join().unwrap();
    };
    on(2, move || daiko::Builder::new().on(0).spawn(main).unwrap().join().unwrap());
}

#[test]
fn a_detached_fiber_drops_its_result() {
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let (early, late) = (drops.clone(), drops.clone());
    on(1, move || {
        drop(daiko::spawn(move || Count(early)));
        let fiber = daiko::spawn(move || Count(late));
        while !fiber.is_finished() {
            daiko::yield_now();
        }
        drop(fiber);
    });
    assert_eq!(drops.load(Ordering::Relaxed), 2);
}

#[test]
fn an_at_least_once_fiber_runs_once_without_deaths_and_drops_its_closure() {
    struct Counts<'c>(&'c AtomicUsize);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    fn begun<T: Send + 'static>(f: impl Fn() -> T + Send + 'static) -> JoinHandle<T> {
        let counts = Counts(&DROPS);
        // Too large for the place on the stack.
        let large = [1_u8; 9 << 10];
        let work = move || {
            assert_eq!((&counts, large[7]).1, 1);
            f()
        };
        Builder::new().stack_size(256 << 10).spawn_at_least_once(work).unwrap()
    }
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let body = || {
        assert_eq!(begun(|| 7).join().unwrap(), 7);
        let panics = begun(|| panic!("on purpose"));
        assert!(matches!(panics.join(), Err(JoinError::Panicked(_))));
        let [parks, never] = [begun(daiko::park), begun(daiko::park)];
        never.cancel();
        daiko::yield_now();
        parks.cancel();
        for fiber in [parks, never] {
            assert!(matches!(fiber.join(), Err(JoinError::Cancelled)));
        }
        assert_eq!(DROPS.load(Ordering::Relaxed), 4);
        // The result is dropped as well, though no fiber joins.
        let detached = begun(|| Counts(&DROPS));
        while !detached.is_finished() {
            daiko::yield_now();
        }
    };
    runtime.spawn_with(Builder::new().stack_size(1 << 20), body).unwrap().join().unwrap();
    runtime.shutdown();
    assert_eq!(DROPS.load(Ordering::Relaxed), 6);
}

#[test]
fn unfinished_fibers_are_unwound() {
    struct Tell(Arc<AtomicUsize>);
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let handles: Vec<_> = (0..100)
        .map(|_| {
            let tell = Tell(drops.clone());
            runtime.spawn(move || {
                let _tell = tell;
                loop {
                    daiko::park();
                }
            })
        })
        .collect();
    runtime.run(daiko::yield_now);
    let report = runtime.shutdown();
    assert_eq!(report.leaked, 0);
    assert_eq!(drops.load(Ordering::Relaxed), 100);
    for handle in handles {
        assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    }
}

#[test]
fn blocking_lends_the_stack() {
    on(1, || {
        let text = String::from("daiko");
        assert_eq!(daiko::blocking(|| text.len()), 5);
    });
}

/// The pool's thread belongs to no runtime.
#[test]
fn spawns_of_a_blocking_call_go_to_the_default_runtime() {
    let (ours, theirs) = flag();
    let (send, receive) = std::sync::mpsc::channel();
    on(1, move || {
        let body = move || {
            daiko::park();
            theirs.store(true, Ordering::Release);
        };
        send.send(daiko::blocking(|| daiko::spawn(body))).unwrap();
    });
    // The runtime of the call is gone.
    let spawned = receive.recv().unwrap();
    spawned.fiber().unpark();
    spawned.join().unwrap();
    assert!(ours.load(Ordering::Acquire));
}

#[test]
fn migratable_fibers_run_everywhere() {
    on(2, || {
        let fibers: Vec<_> = (0..100)
            .map(|i| {
                // SAFETY: the fiber keeps nothing in thread-local storage.
                let migratable = daiko::Builder::new().migratable();
                migratable
                    .spawn(move || {
                        for _ in 0..100 {
                            daiko::yield_now();
                        }
                        i
                    })
                    .unwrap()
            })
            .collect();
        let sum: i32 = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
        assert_eq!(sum, 4950);
    });
}
