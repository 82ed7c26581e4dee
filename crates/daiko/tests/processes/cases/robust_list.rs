//! Objects that a lost fiber held or had lent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use daiko::cancel::CancelToken;
use daiko::process::SharedHeap;
use daiko::sync::{Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, Semaphore};
use daiko::{Builder, JoinError, JoinHandle, Runtime};

use super::processes;
use crate::End;

super::cases! {
    objects_of_a_lost_fiber_go_to_their_waiters End::Well,
    a_lost_writer_poisons_and_a_lost_reader_does_not End::Well,
    objects_given_back_or_forgotten_by_a_lost_fiber_are_not_given_back_again End::Well,
    a_lock_that_a_wait_for_a_condition_took_again_is_poisoned End::Well,
    a_once_is_poisoned_by_a_fiber_lost_in_it End::Well,
    the_fibers_of_a_lost_scope_are_cancelled_and_waited_for End::Well,
    a_scope_is_told_of_a_fiber_that_was_lost End::Well,
    the_timeouts_of_a_lost_fiber_never_fire_and_those_of_its_neighbours_do End::Well,
    a_token_outlives_a_fiber_that_was_lost_in_its_name End::Well,
    nested_objects_are_recovered_from_the_innermost_on End::Well,
    a_fiber_lost_in_another_process_than_it_began_in_settles_all End::Well,
    a_lock_that_is_each_process_s_own_is_left_alone End::Well,
    lost_fibers_that_held_something_leave_no_memory_behind End::Well,
    an_at_least_once_fiber_begins_anew_until_it_ends End::Well,
    a_fiber_lost_while_it_drops_its_closure_is_lost_for_good End::Well,
    a_restarted_fiber_is_the_same_fiber_and_holds_nothing End::Well,
    a_killed_worker_has_its_fiber_begin_anew End::Well,
    a_cancelled_fiber_does_not_begin_anew End::Well,
}

/// Loses the calling fiber in user code: kills its process.
fn lose() -> ! {
    // SAFETY: both calls take plain integers.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("the process was killed in user code")
}

fn assert_lost<T>(joined: Result<T, JoinError>) {
    assert!(matches!(joined, Err(JoinError::WorkerDied)));
}

/// Ends a runtime; checks that so many fibers were lost, and that none is left.
fn end(runtime: Runtime, died: usize) {
    let report = runtime.shutdown();
    assert_eq!((report.unwound, report.leaked, report.died), (0, 0, died));
}

/// Objects that fibers share, in a runtime of one worker.
#[derive(Default)]
struct Things {
    mutex: Mutex<u32>,
    lock: RwLock<u32>,
    changed: Condvar,
    /// The number of fibers that are about to suspend, or have.
    come: AtomicU32,
}

impl Things {
    /// Spawns a fiber that suspends in `body`. Before that, `body` may only take objects that are
    /// free.
    fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        body: impl FnOnce(&Things) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let here = self.clone();
        let comes = self.come.load(Ordering::Relaxed) + 1;
        let fiber = daiko::spawn(move || {
            here.come.fetch_add(1, Ordering::Relaxed);
            body(&here)
        });
        while self.come.load(Ordering::Relaxed) < comes {
            daiko::yield_now();
        }
        fiber
    }
}

/// Runs `body` as a fiber of one worker; checks that so many fibers are lost.
fn run(died: usize, body: impl FnOnce(Arc<Things>) + Send + 'static) {
    let runtime = processes(1).build().unwrap();
    runtime.run(|| body(Arc::default()));
    end(runtime, died);
}

/// Waits for an unpark, then loses the calling fiber.
fn lose_when_told() -> ! {
    daiko::park();
    lose()
}

/// Unparks a fiber that waits to be lost, and joins it.
fn tell(victim: JoinHandle<()>) {
    victim.fiber().unpark();
    assert_lost(victim.join());
}

fn objects_of_a_lost_fiber_go_to_their_waiters() {
    run(1, |things| {
        let doors = Arc::new(Semaphore::new(3));
        let (passes, waits) = (doors.clone(), doors.clone());
        let victim = things.spawn(move |things| {
            let _locked = things.mutex.lock().unwrap();
            let _reads = [things.lock.read().unwrap(), things.lock.read().unwrap()];
            let _permits = (passes.acquire(), passes.acquire_many(2));
            lose_when_told()
        });
        let locks = things.spawn(|things| things.mutex.lock().is_err());
        let writes = things.spawn(|things| things.lock.write().is_ok());
        let passes = things.spawn(move |_| waits.acquire_many(3).count());
        tell(victim);
        assert!(locks.join().unwrap() && writes.join().unwrap());
        assert_eq!((passes.join().unwrap(), doors.available_permits()), (3, 3));
    });
}

fn a_lost_writer_poisons_and_a_lost_reader_does_not() {
    run(3, |things| {
        let reads = |things: &Things| {
            let _read = things.lock.read().unwrap();
            lose_when_told()
        };
        tell(things.spawn(reads));
        assert!(!things.lock.is_poisoned());
        let downgrades = |things: &Things| {
            let write = things.lock.write().unwrap();
            let _read = daiko::sync::RwLockWriteGuard::downgrade(write);
            lose_when_told()
        };
        tell(things.spawn(downgrades));
        assert!(things.lock.try_write().is_ok());
        let victim = things.spawn(|things| {
            let _write = things.lock.write().unwrap();
            lose_when_told()
        });
        let reads = things.spawn(|things| things.lock.read().is_err());
        tell(victim);
        assert!(reads.join().unwrap());
        things.lock.clear_poison();
        assert!(things.lock.try_write().is_ok());
    });
}

fn objects_given_back_or_forgotten_by_a_lost_fiber_are_not_given_back_again() {
    run(1, |things| {
        let doors = Arc::new(Semaphore::new(9));
        let passes = doors.clone();
        let victim = things.spawn(move |things| {
            drop(things.mutex.lock().unwrap());
            drop(passes.acquire());
            let (first, second) = (things.mutex.lock().unwrap(), passes.acquire());
            let [third, fourth] = [2, 3].map(|count| passes.acquire_many(count));
            // Dropped neither in the order in which they were taken, nor in reverse.
            drop((second, first));
            third.forget();
            let _kept = passes.adopt(1);
            assert_eq!((passes.available_permits(), fourth.count()), (4, 3));
            lose_when_told()
        });
        tell(victim);
        assert!(!things.mutex.is_poisoned());
        assert_eq!(doors.available_permits(), 4 + 3 + 1);
    });
}

fn a_lock_that_a_wait_for_a_condition_took_again_is_poisoned() {
    run(2, |things| {
        let waits = |things: &Things| {
            let locked = things.mutex.lock().unwrap();
            let _locked = things.changed.wait_while(locked, |count| *count == 0).unwrap();
            lose_when_told()
        };
        let victim = things.spawn(waits);
        *things.mutex.lock().unwrap() = 1;
        things.changed.notify_one();
        tell(victim);
        assert!(things.mutex.try_lock().is_err());
        things.mutex.clear_poison();
        *things.mutex.lock().unwrap() = 0;
        // It is lost in the middle of a wait, and holds the lock as well.
        let victim = things.spawn(|things| {
            let mut looks = 0;
            let locked = things.mutex.lock().unwrap();
            let lost_at_second = |_: &mut u32| {
                looks += 1;
                if looks == 2 { lose() } else { true }
            };
            let _ = things.changed.wait_while(locked, lost_at_second);
        });
        things.changed.notify_one();
        assert_lost(victim.join());
        assert!(things.mutex.is_poisoned() && things.mutex.lock().is_err());
    });
}

fn a_once_is_poisoned_by_a_fiber_lost_in_it() {
    run(3, |things| {
        let (once, cell) = (Arc::new(Once::new()), Arc::new(OnceLock::new()));
        let [does, waits] = [once.clone(), once.clone()];
        let [makes, gets] = [cell.clone(), cell.clone()];
        let victim = things.spawn(move |_| does.call_once(|| lose_when_told()));
        let waiter =
            things.spawn(move |_| waits.call_once_force(|once| assert!(once.is_poisoned())));
        tell(victim);
        waiter.join().unwrap();
        assert!(once.is_completed());
        let victim = things.spawn(move |_| _ = makes.get_or_init(|| lose_when_told()));
        let getter = things.spawn(move |_| *gets.get_or_init(|| 7));
        tell(victim);
        assert_eq!((getter.join().unwrap(), cell.get()), (7, Some(&7)));
        let lazy = Arc::new(LazyLock::<u32>::new(|| lose_when_told()));
        let [makes, asks] = [lazy.clone(), lazy];
        tell(things.spawn(move |_| _ = **makes));
        let asks = things.spawn(move |_| **asks);
        assert!(matches!(asks.join(), Err(JoinError::Panicked(_))));
    });
}

fn the_fibers_of_a_lost_scope_are_cancelled_and_waited_for() {
    struct Ends<'c>(&'c AtomicU32);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            daiko::yield_now();
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    run(1, |things| {
        let ended = Arc::new(AtomicU32::new(0));
        let ends = ended.clone();
        let victim = things.spawn(move |_| {
            daiko::scope(|scope| {
                for _ in 0..10 {
                    scope.spawn(|| {
                        let _ends = Ends(&ends);
                        daiko::park();
                    });
                }
                daiko::yield_now();
                lose_when_told()
            })
        });
        tell(victim);
        assert_eq!(ended.load(Ordering::Relaxed), 10);
    });
}

fn a_scope_is_told_of_a_fiber_that_was_lost() {
    run(2, |things| {
        let all = things.clone();
        daiko::scope(|scope| {
            let lost = scope.spawn(|| {
                let _locked = all.mutex.lock().unwrap();
                lose()
            });
            assert_lost::<()>(lost.join());
        });
        assert!(things.mutex.is_poisoned());
        let fails = daiko::spawn(|| daiko::scope(|scope| drop(scope.spawn(|| lose()))));
        let payload = fails.join().unwrap_err().into_panic().unwrap();
        let text = payload.downcast_ref::<String>().unwrap();
        assert!(text.contains("was lost with its worker's process, and was not joined"), "{text}");
    });
}

fn the_timeouts_of_a_lost_fiber_never_fire_and_those_of_its_neighbours_do() {
    const SOON: Duration = Duration::from_micros(200);
    run(200, |_| {
        let fibers: Vec<_> = (0..200_u32)
            .map(|i| {
                daiko::spawn(move || {
                    let outer = Duration::from_micros(u64::from(i));
                    let _ = daiko::time::timeout(outer, || daiko::time::timeout(SOON, || lose()));
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| assert_lost(fiber.join()));
        // These fibers use the same stacks, and the same timer wheel.
        let others: Vec<_> = (0..200)
            .map(|_| {
                let wait = || -> () {
                    loop {
                        daiko::park();
                    }
                };
                daiko::spawn(move || daiko::time::timeout(SOON, wait).is_err())
            })
            .collect();
        // A timeout that is lost lets its fiber wait for ever.
        assert!(others.into_iter().all(|other| other.join().unwrap()));
    });
}

fn a_token_outlives_a_fiber_that_was_lost_in_its_name() {
    run(1, |things| {
        let token = CancelToken::new();
        let [lost, other] = [token.clone(), token.clone()];
        let victim = things.spawn(move |_| {
            let _ = lost.run(|| lose_when_told());
        });
        let parks = things.spawn(move |_| other.run(daiko::park).is_err());
        tell(victim);
        // This fiber runs on the stack of the lost fiber.
        let next = things.spawn(|_| daiko::park());
        token.cancel();
        assert!(parks.join().unwrap());
        next.fiber().unpark();
        next.join().unwrap();
    });
}

fn nested_objects_are_recovered_from_the_innermost_on() {
    run(1, |things| {
        let victim = things.spawn(|things| {
            let _locked = things.mutex.lock().unwrap();
            let _ = daiko::time::timeout(Duration::from_secs(60), || {
                daiko::scope(|scope| {
                    let _read = things.lock.read().unwrap();
                    // The writer ends once there are no readers.
                    scope.spawn(|| {
                        things.come.fetch_add(1, Ordering::Relaxed);
                        daiko::cancel::shield(|| drop(things.lock.write()));
                    });
                    while things.come.load(Ordering::Relaxed) < 2 {
                        daiko::yield_now();
                    }
                    daiko::park();
                    daiko::cancel::shield(|| daiko::no_suspend(|| lose()))
                })
            });
        });
        tell(victim);
        assert!(things.mutex.is_poisoned() && things.lock.try_write().is_ok());
    });
}

fn a_fiber_lost_in_another_process_than_it_began_in_settles_all() {
    let runtime = processes(2).build().unwrap();
    let things = Arc::<Things>::default();
    let held = things.clone();
    let victim = Builder::new().on(0);
    let victim = runtime.spawn_with(victim, move || {
        let _locked = held.mutex.lock().unwrap();
        let _ = daiko::time::timeout(Duration::from_secs(60), || {
            super::cross(0);
            let _write = held.lock.write().unwrap();
            lose()
        });
    });
    assert_lost(victim.unwrap().join());
    end(runtime, 1);
    assert!(things.mutex.is_poisoned() && things.lock.is_poisoned());
    assert!(things.mutex.try_lock().is_err() && things.lock.try_write().is_err());
}

fn a_lock_that_is_each_process_s_own_is_left_alone() {
    static OWN: Mutex<u32> = Mutex::new(0);
    run(1, |things| {
        tell(things.spawn(|_| {
            let _locked = OWN.lock().unwrap();
            lose_when_told()
        }));
        // The static of the successor is as it was when the zygote was forked.
        assert!(OWN.try_lock().is_ok());
    });
}

fn lost_fibers_that_held_something_leave_no_memory_behind() {
    const ROUNDS: usize = 300;
    run(ROUNDS + 100, |things| {
        let victims = |count| {
            (0..count).for_each(|_| {
                let held = things.clone();
                let body = move || {
                    let _locks = (held.mutex.lock(), held.lock.write(), held.lock.try_read());
                    daiko::scope(|scope| {
                        scope.spawn(daiko::yield_now);
                        lose()
                    })
                };
                assert_lost::<()>(daiko::spawn(body).join());
            });
        };
        victims(100);
        let before = SharedHeap::stats().unwrap();
        victims(ROUNDS);
        // The memory of the threads of each process, which is lost with the process.
        let of_processes = ROUNDS * 128;
        assert!(SharedHeap::stats().unwrap().in_use <= before.in_use + 4096 + of_processes);
    });
}

fn an_at_least_once_fiber_begins_anew_until_it_ends() {
    let drops = Arc::new(AtomicUsize::new(0));
    let counts = Counts(drops.clone());
    run(0, move |things| {
        let begun = AtomicU32::new(0);
        let work = move || {
            let _counts = &counts;
            let _locked = things.mutex.lock();
            let name = daiko::current().name().map(str::to_owned);
            match begun.fetch_add(1, Ordering::Relaxed) {
                0 => lose(),
                1 => daiko::scope(|scope| {
                    scope.spawn(daiko::park);
                    daiko::yield_now();
                    lose()
                }),
                times => (times, name, things.mutex.is_poisoned()),
            }
        };
        let fiber = Builder::new().name("again").spawn_at_least_once(work).unwrap();
        assert_eq!(fiber.join().unwrap(), (2, Some("again".to_owned()), true));
    });
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

/// Counts how often it is dropped.
struct Counts(Arc<AtomicUsize>);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn a_fiber_lost_while_it_drops_its_closure_is_lost_for_good() {
    struct Loses;
    impl Drop for Loses {
        fn drop(&mut self) {
            lose()
        }
    }
    run(2, |things| {
        for cancels in [false, true] {
            let (loses, here) = (Loses, things.clone());
            let work = move || {
                let _loses = &loses;
                here.come.fetch_add(1, Ordering::Relaxed);
            };
            let fiber = Builder::new().spawn_at_least_once(work).unwrap();
            if cancels {
                fiber.cancel();
            }
            assert_lost(fiber.join());
        }
        assert_eq!(things.come.load(Ordering::Relaxed), 1);
    });
}

fn a_restarted_fiber_is_the_same_fiber_and_holds_nothing() {
    const TIMES: u32 = 20;
    let runtime = processes(1).build().unwrap();
    let begun = AtomicU32::new(0);
    // Too large to lie on the stack beside the name.
    let large = [7_u8; 9 << 10];
    let frames = Arc::new(Mutex::new(Vec::new()));
    let seen = frames.clone();
    let work = move || {
        let here = large[3];
        seen.lock().unwrap().push(std::ptr::from_ref(std::hint::black_box(&here)).addr());
        if begun.fetch_add(1, Ordering::Relaxed) < TIMES {
            let _ = daiko::time::timeout(Duration::ZERO, || {
                daiko::no_suspend(|| daiko::cancel::shield(|| lose()))
            });
        }
        assert!(!daiko::cancel::is_cancelled());
        daiko::yield_now();
        daiko::current()
    };
    let fiber = runtime.spawn_at_least_once(Builder::new().name("large"), work).unwrap();
    let before = fiber.fiber().clone();
    assert_eq!(fiber.join().unwrap(), before);
    let frames = frames.lock().unwrap();
    assert!(
        frames.len() as u32 == TIMES + 1 && frames.iter().all(|frame| *frame == frames[0]),
        "{frames:?}"
    );
    end(runtime, 0);
}

fn a_killed_worker_has_its_fiber_begin_anew() {
    const KILLS: u32 = 10;
    let runtime = processes(2).build().unwrap();
    let process = Arc::new(AtomicU32::new(0));
    let (begun, here) = (AtomicU32::new(0), process.clone());
    let work = move || {
        let times = begun.fetch_add(1, Ordering::Relaxed);
        daiko::yield_now();
        here.store(std::process::id(), Ordering::Release);
        if times == KILLS {
            return times;
        }
        loop {
            std::hint::spin_loop();
        }
    };
    let fiber = runtime.spawn_at_least_once(Builder::new(), work).unwrap();
    for _ in 0..KILLS {
        let victim = loop {
            match process.swap(0, Ordering::Acquire) {
                0 => std::thread::yield_now(),
                victim => break victim,
            }
        };
        // SAFETY: it takes plain integers.
        assert_eq!(unsafe { libc::kill(victim as i32, libc::SIGKILL) }, 0);
    }
    assert_eq!(fiber.join().unwrap(), KILLS);
    end(runtime, 0);
}

fn a_cancelled_fiber_does_not_begin_anew() {
    let drops = Arc::new(AtomicUsize::new(0));
    let counts = Counts(drops.clone());
    run(0, move |things| {
        let victim = things.clone();
        let work = move || -> () {
            let _counts = &counts;
            victim.come.fetch_add(1, Ordering::Relaxed);
            daiko::cancel::shield(|| lose_when_told())
        };
        let fiber = Builder::new().spawn_at_least_once(work).unwrap();
        while things.come.load(Ordering::Relaxed) == 0 {
            daiko::yield_now();
        }
        fiber.cancel();
        fiber.fiber().unpark();
        assert!(matches!(fiber.join(), Err(JoinError::Cancelled)));
        assert_eq!(things.come.load(Ordering::Relaxed), 1);
    });
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}
