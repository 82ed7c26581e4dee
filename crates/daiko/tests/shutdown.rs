//! The end of a runtime: fibers that unwind, fibers that resist, and values that outlive it.

mod support;

use std::hint::spin_loop;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::time::Duration;

use daiko::watch::{self, NotificationArea, at_least};
use daiko::{Builder, Cancelled, Fiber, JoinError, JoinHandle, Runtime};
use support::{Drops, OnDrop, PRESETS, Token, end, migratable, panic_of, until, workers};

/// A timeout for fibers that are known to resist; long enough for the rest to give in on a busy
/// machine.
const SHORT: Duration = Duration::from_secs(1);

/// The place where a fiber waits when the shutdown comes. Each closure keeps its token for ever.
#[derive(Clone, Copy, Debug)]
enum Place {
    Parked,
    Watching,
    Notified,
    Slot,
    Yielding,
    Joining,
}

const PLACES: [Place; 6] =
    [Place::Parked, Place::Watching, Place::Notified, Place::Slot, Place::Yielding, Place::Joining];

/// Stays at `place` until it is unwound; adds to `there` before it waits.
fn stay(place: Place, token: Token, there: Arc<AtomicUsize>) {
    let _token = token;
    let word = AtomicU64::new(0);
    let (_area, mut slots) = NotificationArea::<u64>::new(1);
    let other = daiko::spawn(|| {
        loop {
            daiko::park();
        }
    });
    there.fetch_add(1, Ordering::Release);
    match place {
        Place::Parked => loop {
            daiko::park();
        },
        Place::Watching => drop(watch::wait_until(&word, at_least(1))),
        Place::Notified => drop(watch::wait_until_notified(&word, at_least(1))),
        Place::Slot => drop(slots[0].wait()),
        Place::Yielding => loop {
            daiko::yield_now();
        },
        Place::Joining => assert!(matches!(other.join(), Err(JoinError::Cancelled))),
    }
    // Only a join may end, by the unwinding of the joined fiber. The next suspension does not
    // return.
    assert!(matches!(place, Place::Joining));
    daiko::park();
    unreachable!("the fiber is cancelled");
}

#[test]
fn fibers_are_unwound_wherever_they_wait() {
    for workers in 1..=3 {
        for preset in PRESETS {
            for place in PLACES {
                unwound_at(place, Runtime::builder().workers(workers).preset(preset).build());
            }
        }
    }
}

fn unwound_at(place: Place, runtime: Result<Runtime, daiko::BuildError>) {
    let runtime = runtime.unwrap();
    let (drops, there) = (Drops::default(), Arc::new(AtomicUsize::new(0)));
    let handles: Vec<JoinHandle<()>> = (0..20)
        .map(|i| {
            let (token, there) = (drops.token(), there.clone());
            let builder = if i % 2 == 0 { migratable() } else { Builder::new() };
            runtime.spawn_with(builder, move || stay(place, token, there)).unwrap()
        })
        .collect();
    until("all fibers at their places", || there.load(Ordering::Acquire) == 20);
    let report = runtime.shutdown();
    assert_eq!(report.leaked, 0, "{place:?}");
    // Each of the fibers, and the fiber beside it.
    assert_eq!(report.unwound, 40, "{place:?}");
    drops.assert_all();
    for handle in handles {
        assert!(matches!(handle.join(), Err(JoinError::Cancelled)), "{place:?}");
    }
}

#[test]
fn a_blocking_call_ends_before_its_fiber_unwinds() {
    for builder in [Builder::new(), migratable()] {
        let runtime = workers(1);
        let (drops, entered) = (Drops::default(), Arc::new(AtomicBool::new(false)));
        // Both ends of the channel belong to fibers: that of the parked fiber is dropped first.
        let (send, receive) = mpsc::channel::<()>();
        let sender = runtime.spawn(move || {
            let _send = send;
            daiko::park();
        });
        let (token, tell) = (drops.token(), entered.clone());
        let body = move || {
            let _token = token;
            let borrowed = &AtomicU64::new(7);
            let lent = daiko::blocking(move || {
                tell.store(true, Ordering::Release);
                assert!(receive.recv().is_err());
                borrowed
            });
            assert_eq!(lent.load(Ordering::Relaxed), 7);
            daiko::park();
        };
        let blocked = runtime.spawn_with(builder, body).unwrap();
        until("the blocking call", || entered.load(Ordering::Acquire));
        assert_eq!(runtime.shutdown().leaked, 0);
        drops.assert_all();
        assert!(matches!(sender.join(), Err(JoinError::Cancelled)));
        assert!(matches!(blocked.join(), Err(JoinError::Cancelled)));
    }
}

/// Spawns fibers, without a suspension, until the shutdown refuses more.
fn fill_until_shutdown(drops: &Drops, mut builder: impl FnMut() -> Builder) {
    loop {
        let token = drops.token();
        let body = move || {
            let _token = token;
            loop {
                daiko::park();
            }
        };
        match builder().spawn(body) {
            Ok(handle) => drop(handle),
            Err(_) => return,
        }
        std::thread::yield_now();
    }
}

#[test]
fn fibers_that_have_not_started_drop_their_closures() {
    // Into the local queue; into the own inbox; into the inbox of the other worker.
    let builders: [fn() -> Builder; 4] =
        [Builder::new, || Builder::new().on(0), || Builder::new().on(1), migratable];
    for builder in builders {
        let (runtime, drops) = (workers(2), Drops::default());
        let (counted, running) = (drops.clone(), Arc::new(AtomicBool::new(false)));
        let tell = running.clone();
        let hog = runtime.spawn(move || {
            tell.store(true, Ordering::Release);
            fill_until_shutdown(&counted, builder);
        });
        until("the fiber that spawns", || running.load(Ordering::Acquire));
        assert_eq!(runtime.shutdown().leaked, 0);
        hog.join().unwrap();
        drops.assert_all();
    }
}

#[test]
fn fibers_in_the_injector_drop_their_closures() {
    let (runtime, drops) = (workers(1), Drops::default());
    let (counted, running) = (drops.clone(), Arc::new(AtomicBool::new(false)));
    let tell = running.clone();
    let hog = runtime.spawn(move || {
        tell.store(true, Ordering::Release);
        fill_until_shutdown(&counted, || Builder::new().on(0));
    });
    until("the fiber that keeps the worker", || running.load(Ordering::Acquire));
    let handles: Vec<_> = (0..100)
        .map(|_| {
            let token = drops.token();
            runtime.spawn(move || {
                let _token = token;
                daiko::park();
            })
        })
        .collect();
    assert_eq!(runtime.shutdown().leaked, 0);
    hog.join().unwrap();
    drops.assert_all();
    for handle in handles {
        assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    }
}

#[test]
fn a_cancel_that_is_swallowed_comes_again() {
    let runtime = workers(1);
    let swallowed = Arc::new(AtomicUsize::new(0));
    let (count, drops) = (swallowed.clone(), Drops::default());
    let token = drops.token();
    let fiber = runtime.spawn(move || {
        let _token = token;
        for _ in 0..3 {
            let payload = panic::catch_unwind(daiko::park).unwrap_err();
            assert!(payload.is::<Cancelled>());
            count.fetch_add(1, Ordering::Relaxed);
        }
        daiko::yield_now();
        unreachable!("the cancel is raised at every suspension");
    });
    runtime.run(daiko::yield_now);
    assert_eq!(runtime.shutdown().leaked, 0);
    assert_eq!(swallowed.load(Ordering::Relaxed), 3);
    drops.assert_all();
    assert!(matches!(fiber.join(), Err(JoinError::Cancelled)));
}

#[test]
fn destructors_may_suspend_while_they_unwind() {
    for builder in [Builder::new(), migratable()] {
        let runtime = workers(2);
        let done = Arc::new(AtomicUsize::new(0));
        let (tell, word) = (done.clone(), Arc::new(AtomicU64::new(0)));
        let started = Arc::new(AtomicBool::new(false));
        let starts = started.clone();
        let body = move || {
            let other = daiko::spawn(daiko::park);
            let mut other = Some(other);
            let _late = OnDrop(|| {
                daiko::yield_now();
                daiko::current().unpark();
                daiko::park();
                let other = other.take().unwrap();
                other.fiber().unpark();
                // The joined fiber is unwound, too, or ends by the unpark: either way the join
                // returns.
                match other.join() {
                    Ok(()) | Err(JoinError::Cancelled) => {}
                    Err(error) => panic!("{error}"),
                }
                let writer = word.clone();
                let thread = std::thread::spawn(move || writer.store(1, Ordering::Release));
                assert_eq!(watch::wait_until(&*word, at_least(1)), 1);
                thread.join().unwrap();
                assert_eq!(daiko::blocking(|| 7), 7);
                tell.fetch_add(1, Ordering::Relaxed);
            });
            starts.store(true, Ordering::Release);
            daiko::park();
        };
        let fiber = runtime.spawn_with(builder, body).unwrap();
        until("the fiber", || started.load(Ordering::Acquire));
        assert_eq!(runtime.shutdown().leaked, 0);
        assert_eq!(done.load(Ordering::Relaxed), 1);
        assert!(matches!(fiber.join(), Err(JoinError::Cancelled)));
    }
}

/// A cancel may not end the wait of a fiber that unwinds anyway: there is no result to return.
#[test]
fn a_join_while_unwinding_waits_for_the_result() {
    let runtime = workers(2);
    let (send, receive) = mpsc::channel();
    let joining = Arc::new(AtomicBool::new(false));
    let tell = joining.clone();
    let unwinding = Builder::new().on(0);
    let fiber = runtime.spawn_with(unwinding, move || {
        // This fiber is on the other worker: a cancel has to wait where a neighbour unwinds.
        let other = Builder::new().on(1).spawn(|| {
            loop {
                daiko::park();
            }
        });
        let mut other: Option<JoinHandle<()>> = Some(other.unwrap());
        let _late = OnDrop(|| {
            tell.store(true, Ordering::Release);
            let _ = send.send(other.take().unwrap().join());
        });
        panic::resume_unwind(Box::new("on its own account"));
    });
    let fiber: JoinHandle<()> = fiber.unwrap();
    until("the join", || joining.load(Ordering::Acquire));
    runtime.run(daiko::yield_now);
    assert_eq!(runtime.shutdown().leaked, 0);
    assert!(matches!(receive.recv().unwrap(), Err(JoinError::Cancelled)));
    assert!(matches!(fiber.join(), Err(JoinError::Panicked(_))));
}

/// Ends the fiber that resisted, so that its thread does not outlive the test by much.
struct Resister {
    release: Arc<AtomicBool>,
    running: Arc<AtomicBool>,
}

impl Resister {
    fn new() -> Self {
        Resister { release: Arc::default(), running: Arc::default() }
    }

    /// Returns a body that computes until it is released.
    fn compute(&self) -> impl FnOnce() + Send + 'static {
        let (release, running) = (self.release.clone(), self.running.clone());
        move || {
            running.store(true, Ordering::Release);
            while !release.load(Ordering::Acquire) {
                spin_loop();
            }
        }
    }

    /// Returns a body that catches each cancel until it is released.
    fn catch(&self) -> impl FnOnce() + Send + 'static {
        let (release, running) = (self.release.clone(), self.running.clone());
        move || {
            while !release.load(Ordering::Acquire) {
                running.store(true, Ordering::Release);
                let _ = panic::catch_unwind(daiko::park);
            }
        }
    }

    /// Returns a body with a blocking call that lasts until it is released.
    fn block(&self) -> impl FnOnce() + Send + 'static {
        let (release, running) = (self.release.clone(), self.running.clone());
        move || {
            daiko::blocking(|| {
                running.store(true, Ordering::Release);
                while !release.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            });
        }
    }
}

impl Drop for Resister {
    fn drop(&mut self) {
        self.release.store(true, Ordering::Release);
    }
}

type Body = Box<dyn FnOnce() + Send>;
type Kind = fn(&Resister) -> Body;

#[test]
fn fibers_that_resist_are_left_behind_and_counted() {
    let compute = |resister: &Resister| Box::new(resister.compute()) as Body;
    let catch = |resister: &Resister| Box::new(resister.catch()) as Body;
    let block = |resister: &Resister| Box::new(resister.block()) as Body;
    let kinds: [(Kind, Builder); 4] = [
        (compute, Builder::new()),
        (catch, Builder::new()),
        (catch, migratable()),
        (block, migratable()),
    ];
    for (kind, builder) in kinds {
        let (runtime, resister, drops) = (workers(2), Resister::new(), Drops::default());
        let resisting = runtime.spawn_with(builder.on(0), kind(&resister)).unwrap();
        until("the one that resists", || resister.running.load(Ordering::Acquire));
        // A fiber on the other worker gives in.
        let token = drops.token();
        let body = move || {
            let _token = token;
            daiko::park();
        };
        let other = runtime.spawn_with(Builder::new().on(1), body).unwrap();
        let waiting = std::thread::scope(|threads| {
            let joiner = threads.spawn(|| resisting.join());
            let report = runtime.shutdown_timeout(SHORT);
            assert_eq!(report.leaked, 1);
            joiner.join().unwrap()
        });
        assert!(matches!(waiting, Err(JoinError::Leaked)), "{waiting:?}");
        drops.assert_all();
        assert!(matches!(other.join(), Err(JoinError::Cancelled)));
    }
}

/// A joiner that asks only after the shutdown gets the error, too, as a thread or as a fiber of
/// another runtime.
#[test]
fn late_joiners_of_the_leaked_are_told() {
    let (runtime, other, resister) = (workers(1), workers(1), Resister::new());
    let resist = || runtime.spawn_with(Builder::new().on(0), resister.compute()).unwrap();
    let (running, unstarted) = (resist(), resist());
    until("the one that resists", || resister.running.load(Ordering::Acquire));
    let (started, early) = (Arc::new(AtomicBool::new(false)), running.fiber().clone());
    let tell = started.clone();
    let joiner = other.spawn(move || {
        tell.store(true, Ordering::Release);
        running.join()
    });
    until("the joiner", || started.load(Ordering::Acquire));
    assert_eq!(runtime.shutdown_timeout(SHORT).leaked, 2);
    let told = joiner.join().unwrap();
    assert!(matches!(told, Err(JoinError::Leaked)), "{told:?}");
    let told = other.run(move || unstarted.join());
    assert!(matches!(told, Err(JoinError::Leaked)), "{told:?}");
    early.unpark();
    end(other);
}

#[test]
fn an_ended_fiber_is_not_left_behind_though_its_handle_was_dropped_later() {
    let runtime = workers(1);
    let ended = runtime.spawn(|| ());
    until("its end", || ended.is_finished());
    let known = ended.fiber().clone();
    drop(ended);
    end(runtime);
    drop(known);
}

/// The end of the fiber has come, but is still under way.
#[test]
fn a_fiber_stuck_in_the_destructor_of_its_result_is_left_behind() {
    let (runtime, resister) = (workers(1), Resister::new());
    let mut resist = Some(resister.compute());
    let detached = runtime.spawn(|| {
        daiko::park();
        OnDrop(move || resist.take().unwrap()())
    });
    let known = detached.fiber().clone();
    drop(detached);
    known.unpark();
    until("the destructor", || resister.running.load(Ordering::Acquire));
    assert_eq!(runtime.shutdown_timeout(SHORT).leaked, 1);
}

#[test]
fn handles_and_areas_outlive_the_runtime() {
    for workers in 1..=2 {
        let runtime = support::workers(workers);
        let drops = Drops::default();
        let token = drops.token();
        let finished = Builder::new().name("finished");
        let finished = runtime.spawn_with(finished, move || token).unwrap();
        let (area, slots, parked) = runtime.run(|| {
            let (area, slots) = NotificationArea::<u64>::new(2);
            (area, slots, daiko::spawn(daiko::park))
        });
        let (notified_area, notified_slots) = runtime.run(|| NotificationArea::<u32>::notified(2));
        let handle = parked.fiber().clone();
        assert_eq!(runtime.shutdown().leaked, 0);
        handle.unpark();
        assert!(matches!(parked.join(), Err(JoinError::Cancelled)));
        assert_eq!(handle.clone(), handle);
        assert_eq!(finished.fiber().name(), Some("finished"));
        assert!(finished.is_finished());
        assert_eq!(drops.dropped(), 0);
        drop(finished.join().unwrap());
        drops.assert_all();
        area.notify(1);
        notified_area.notify(0);
        drop((area, notified_area));
        drop((slots, notified_slots, handle));
    }
}

/// The area is not scanned any more, so no fiber may wait there.
#[test]
fn waits_at_an_area_end_with_its_runtime() {
    for make in [NotificationArea::<u64>::new, NotificationArea::notified] {
        let (home, other) = (workers(1), workers(1));
        let (area, mut slots) = home.run(move || make(2));
        let mut late = slots.remove(0);
        let waiter = other.spawn(move || slots[0].wait());
        other.run(daiko::yield_now);
        home.shutdown();
        assert_eq!(waiter.join().unwrap(), Err(watch::Closed));
        // A value that is there may still be taken.
        area.notify(0);
        let results = other.run(move || [late.wait(), late.wait()]);
        assert_eq!(results, [Ok(1), Err(watch::Closed)]);
        drop(area);
        end(other);
    }
}

/// The waits end even if a fiber resists, so that its worker is left behind.
#[test]
fn waits_at_an_area_end_with_its_runtime_though_fibers_resist() {
    let (home, other, resister) = (workers(2), workers(1), Resister::new());
    let resisting = home.spawn_with(Builder::new().on(0), resister.compute()).unwrap();
    until("the one that resists", || resister.running.load(Ordering::Acquire));
    let make = || NotificationArea::<u64>::new(1);
    let made = home.spawn_with(Builder::new().on(1), make).unwrap();
    let (_area, mut slots) = made.join().unwrap();
    let waiter = other.spawn(move || slots[0].wait());
    other.run(daiko::yield_now);
    assert_eq!(home.shutdown_timeout(SHORT).leaked, 1);
    assert_eq!(waiter.join().unwrap(), Err(watch::Closed));
    assert!(matches!(resisting.join(), Err(JoinError::Leaked)));
    end(other);
}

#[test]
fn a_fiber_cannot_shut_its_own_runtime_down() {
    let slot = Arc::new(Mutex::new(None));
    let runtime = workers(2);
    let (other, ready) = (slot.clone(), Arc::new(Barrier::new(2)));
    let go = ready.clone();
    // The runtime is never shut down: its handle went with the panic.
    let fiber = runtime.spawn(move || {
        daiko::blocking(|| go.wait());
        let runtime: Runtime = other.lock().unwrap().take().unwrap();
        let text = panic_of(|| runtime.shutdown());
        support::assert_names(&text, "another runtime's fiber");
        text
    });
    *slot.lock().unwrap() = Some(runtime);
    ready.wait();
    assert!(fiber.join().unwrap().starts_with("daiko: a fiber cannot shut its own runtime down;"));
}

/// A drop by its own fiber panics, too, unless the fiber panics already: a second panic would
/// abort.
#[test]
fn a_fiber_that_drops_its_own_runtime_panics_once() {
    for panics in [false, true] {
        let slot = Arc::new(Mutex::new(None));
        let (runtime, own) = (workers(1), slot.clone());
        let (send, receive) = mpsc::channel::<()>();
        let fiber = runtime.spawn(move || {
            receive.recv().unwrap();
            let _runtime: Runtime = own.lock().unwrap().take().unwrap();
            if panics {
                panic!("its own");
            }
        });
        *slot.lock().unwrap() = Some(runtime);
        send.send(()).unwrap();
        let payload = fiber.join().unwrap_err().into_panic().unwrap();
        let expected = if panics { "its own" } else { "daiko: a fiber cannot shut" };
        assert!(payload.downcast::<&str>().unwrap().starts_with(expected));
    }
}

#[test]
fn a_fiber_may_shut_another_runtime_down() {
    let outer = workers(1);
    let drops = Drops::default();
    let token = drops.token();
    outer.run(move || {
        let inner = workers(1);
        let parked = inner.spawn(move || {
            let _token = token;
            daiko::park();
        });
        inner.run(daiko::yield_now);
        assert_eq!(inner.shutdown().leaked, 0);
        assert!(matches!(parked.join(), Err(JoinError::Cancelled)));
    });
    end(outer);
    drops.assert_all();
}

#[test]
fn a_drop_unwinds_as_a_shutdown_does() {
    let drops = Drops::default();
    for workers in 1..=2 {
        let runtime = support::workers(workers);
        for _ in 0..50 {
            let token = drops.token();
            drop(runtime.spawn(move || {
                let _token = token;
                daiko::park();
            }));
        }
        drop(runtime);
        drops.assert_all();
    }
}

#[test]
fn many_runtimes_live_at_once() {
    let drops = Drops::default();
    let runtimes: Vec<_> = (0..8).map(|i| workers(1 + i % 2)).collect();
    // Each fiber wakes a fiber of the next runtime, round and round, and is then unwound.
    let fibers: Arc<Vec<OnceLock<Fiber>>> = Arc::new((0..8).map(|_| OnceLock::new()).collect());
    let laps = Arc::new(AtomicUsize::new(0));
    for (i, runtime) in runtimes.iter().enumerate() {
        let (fibers, laps, token) = (fibers.clone(), laps.clone(), drops.token());
        let ring = fibers.clone();
        let handle = runtime.spawn(move || {
            let _token = token;
            loop {
                daiko::park();
                laps.fetch_add(1, Ordering::Relaxed);
                ring[(i + 1) % 8].get().unwrap().unpark();
            }
        });
        fibers[i].set(handle.fiber().clone()).unwrap();
    }
    fibers[0].get().unwrap().unpark();
    until("400 hops between runtimes", || laps.load(Ordering::Relaxed) >= 400);
    for runtime in runtimes {
        assert_eq!(runtime.shutdown().leaked, 0);
    }
    drops.assert_all();
}

#[test]
fn runtimes_come_and_go() {
    let drops = Drops::default();
    for round in 0..100 {
        let runtime = workers(1 + round % 3);
        let handles: Vec<_> = (0..round)
            .map(|i| {
                let token = drops.token();
                let builder = if i % 2 == 0 { migratable() } else { Builder::new() };
                let body = move || {
                    daiko::yield_now();
                    if i % 3 == 0 {
                        daiko::park();
                    }
                    token
                };
                runtime.spawn_with(builder, body).unwrap()
            })
            .collect();
        assert_eq!(runtime.shutdown().leaked, 0);
        for handle in handles {
            match handle.join() {
                Ok(token) => drop(token),
                Err(error) => assert!(matches!(error, JoinError::Cancelled), "{error}"),
            }
        }
        drops.assert_all();
    }
}

#[test]
fn a_panic_in_a_destructor_of_a_closure_reaches_the_joiner() {
    let runtime = workers(1);
    let fiber = runtime.spawn(|| {
        let _late = OnDrop(|| {
            let result = panic::catch_unwind(AssertUnwindSafe(|| panic!("inside")));
            assert!(result.is_err());
        });
        daiko::park();
    });
    runtime.run(daiko::yield_now);
    assert_eq!(runtime.shutdown().leaked, 0);
    assert!(matches!(fiber.join(), Err(JoinError::Cancelled)));
}

/// A worker that is about to sleep as the shutdown comes has to look once more.
#[test]
fn a_shutdown_reaches_workers_that_are_about_to_sleep() {
    // More workers than CPUs, so that some are preempted between their last look and the sleep.
    for round in 0..200_u32 {
        let preset = PRESETS[1 + round as usize % 2];
        let runtime = Runtime::builder().workers(8).preset(preset).build().unwrap();
        let there = Arc::new(AtomicUsize::new(0));
        let parked: [JoinHandle<()>; 8] = std::array::from_fn(|worker| {
            let there = there.clone();
            let body = move || {
                there.fetch_add(1, Ordering::Release);
                daiko::park();
            };
            runtime.spawn_with(Builder::new().on(worker), body).unwrap()
        });
        until("all at their park", || there.load(Ordering::Acquire) == 8);
        // The agents that spin do so for 50 µs.
        let began = std::time::Instant::now();
        until("some moment", || began.elapsed() >= Duration::from_nanos(u64::from(round) * 400));
        assert_eq!(runtime.shutdown().leaked, 0, "round {round}");
        for handle in parked {
            assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
        }
    }
}
