//! Stuck workers: the reports, and the spares that take over. Declared blocking: its effects.

mod support;

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use daiko::{Builder, JoinHandle, Runtime, RuntimeBuilder, Stuck};
use support::child::emulated::LinuxPart;
use support::child::in_child_well;
use support::{
    Drops, OnDrop, PRESETS, end, migratable, panic_of, run_on, until, workers, yield_until,
};

/// Returns a runtime, and the channel through which its reports come.
fn reporting(builder: RuntimeBuilder) -> (Runtime, mpsc::Receiver<Report>) {
    let (send, receive) = mpsc::channel();
    let hook = move |stuck: &Stuck| _ = send.send(Report::of(stuck));
    (builder.on_stuck(hook).build().unwrap(), receive)
}

/// A copy of a [`Stuck`].
#[derive(Debug)]
struct Report {
    worker: usize,
    fiber: Option<String>,
    file: &'static str,
    line: u32,
    in_futex: bool,
    suspended: Vec<String>,
}

impl Report {
    fn of(stuck: &Stuck) -> Self {
        let (file, line) = (stuck.spawned_at.file(), stuck.spawned_at.line());
        let (fiber, suspended) = (stuck.fiber.clone(), stuck.suspended.clone());
        Report { worker: stuck.worker, fiber, file, line, in_futex: stuck.in_futex, suspended }
    }
}

/// A fiber that keeps its worker until it is released.
struct Hog {
    release: Arc<AtomicBool>,
    handle: JoinHandle<()>,
}

impl Hog {
    fn on(runtime: &Runtime, worker: usize) -> Self {
        Self::after(runtime, worker, || ())
    }

    /// Runs `first` before it keeps the worker.
    fn after(runtime: &Runtime, worker: usize, first: impl FnOnce() + Send + 'static) -> Self {
        let release = Arc::new(AtomicBool::new(false));
        let (told, running) = (release.clone(), Arc::new(AtomicBool::new(false)));
        let tell = running.clone();
        let body = move || {
            first();
            tell.store(true, Ordering::Release);
            while !told.load(Ordering::Acquire) {
                spin_loop();
            }
        };
        let builder = Builder::new().name("hog").on(worker);
        let handle = runtime.spawn_with(builder, body).unwrap();
        until("the hog", || running.load(Ordering::Acquire));
        Hog { release, handle }
    }

    fn end(self) {
        self.release.store(true, Ordering::Release);
        self.handle.join().unwrap();
    }
}

#[test]
fn a_stuck_worker_is_reported_and_counted() {
    let (runtime, reports) = reporting(Runtime::builder().workers(2));
    let parked = runtime.spawn_with(Builder::new().name("parked").on(1), daiko::park).unwrap();
    let hog = Hog::on(&runtime, 1);
    let report = reports.recv().unwrap();
    let spawned_at = hog.handle.fiber().spawned_at();
    assert_eq!((report.worker, report.fiber.as_deref()), (1, Some("hog")));
    assert_eq!((report.file, report.line), (spawned_at.file(), spawned_at.line()));
    assert!(report.file.ends_with("monitor.rs"));
    assert!(!report.in_futex && report.suspended.is_empty(), "it computes: {report:?}");
    assert_eq!(runtime.counters()[1].stuck, 1, "once for each time it gets stuck");
    hog.end();
    let again = Hog::on(&runtime, 1);
    assert_eq!(reports.recv().unwrap().fiber.as_deref(), Some("hog"));
    until("the second event", || runtime.counters()[1].stuck == 2);
    again.end();
    parked.fiber().unpark();
    parked.join().unwrap();
    end(runtime);
}

#[test]
fn a_fiber_without_a_name_is_reported_by_its_place() {
    let (runtime, reports) = reporting(Runtime::builder().workers(1));
    let (tell, told) = mpsc::channel::<()>();
    let line = line!() + 1;
    let stuck = runtime.spawn(move || told.recv());
    let report = reports.recv().unwrap();
    assert_eq!((report.fiber, report.line), (None, line));
    tell.send(()).unwrap();
    stuck.join().unwrap().unwrap();
    end(runtime);
}

/// A worker that switches is not stuck, even if its only fiber runs again and again.
#[test]
fn a_busy_worker_is_not_reported() {
    let (runtime, reports) = reporting(Runtime::builder().workers(1));
    let hog = Hog::on(&runtime, 0);
    reports.recv().unwrap();
    hog.end();
    let before = runtime.counters()[0].stuck;
    // The fiber yields for as long as the monitor needs to report a worker of another runtime.
    let busy = Arc::new(AtomicBool::new(true));
    let until_then = busy.clone();
    let fiber = runtime.spawn(move || {
        while until_then.load(Ordering::Acquire) {
            daiko::yield_now();
        }
    });
    let (other, others_reports) = reporting(Runtime::builder().workers(1));
    for _ in 0..3 {
        let hog = Hog::on(&other, 0);
        others_reports.recv().unwrap();
        hog.end();
    }
    busy.store(false, Ordering::Release);
    fiber.join().unwrap();
    assert_eq!(runtime.counters()[0].stuck, before);
    end(other);
    end(runtime);
}

/// The report names a deadlock that comes from a lock of `std` held over a suspension.
#[test]
fn a_lock_held_over_a_suspension_is_reported() {
    if LinuxPart::Calls.is_lacking() {
        return;
    }
    in_child_well("a_lock_held_over_a_suspension_is_reported", || {
        let (runtime, reports) = reporting(Runtime::builder().workers(1));
        let lock = Arc::new(Mutex::new(()));
        let (other, locked) = (lock.clone(), Arc::new(AtomicBool::new(false)));
        let tell = locked.clone();
        let holder = move || {
            let _held = other.lock().unwrap();
            tell.store(true, Ordering::Release);
            daiko::park();
        };
        drop(runtime.spawn_with(Builder::new().name("holder"), holder).unwrap());
        let line = line!() + 1;
        drop(runtime.spawn(daiko::park));
        until("the lock", || locked.load(Ordering::Acquire));
        let blocked = move || drop(lock.lock().unwrap());
        drop(runtime.spawn_with(Builder::new().name("blocked"), blocked).unwrap());
        let report = reports.recv().unwrap();
        assert_eq!(report.fiber.as_deref(), Some("blocked"));
        assert!(report.in_futex);
        assert!(report.suspended.contains(&"holder".to_owned()), "{report:?}");
        let unnamed = format!("monitor.rs:{line}:");
        assert!(report.suspended.iter().any(|name| name.contains(&unnamed)), "{report:?}");
        // Only the end of the process can end the deadlock.
        std::process::exit(0);
    });
}

#[test]
fn a_hook_that_panics_does_no_harm() {
    let builder = Runtime::builder().workers(1).on_stuck(|_| panic!("the hook"));
    let runtime = builder.build().unwrap();
    let hog = Hog::on(&runtime, 0);
    until("the event", || runtime.counters()[0].stuck == 1);
    hog.end();
    assert_eq!(runtime.run(|| daiko::spawn(|| 5).join().unwrap()), 5);
    end(runtime);
}

#[test]
fn a_spare_takes_fibers_that_have_not_started() {
    let runtime = workers(1);
    let here = runtime.run(daiko_sys::thread::id);
    let (send, receive) = mpsc::channel();
    let hog = Hog::after(&runtime, 0, move || {
        // These fibers are in the local queue; the rest come through the injector.
        for _ in 0..50 {
            send.send(daiko::spawn(daiko_sys::thread::id)).unwrap();
        }
    });
    for fiber in receive {
        assert_ne!(fiber.join().unwrap(), here);
    }
    for _ in 0..50 {
        assert_ne!(runtime.spawn(daiko_sys::thread::id).join().unwrap(), here);
    }
    hog.end();
    end(runtime);
}

#[test]
fn a_spare_takes_runnable_migratable_fibers() {
    let runtime = workers(1);
    let (send, receive) = mpsc::channel();
    let (count, mid) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (reach, go) = (count.clone(), mid.clone());
    runtime.run(move || {
        for i in 0..20 {
            let (count, go) = (reach.clone(), go.clone());
            let body = move || {
                count.fetch_add(1, Ordering::Release);
                yield_until("the hog", || go.load(Ordering::Acquire));
                i
            };
            send.send(migratable().spawn(body).unwrap()).unwrap();
        }
        yield_until("the start of all migratable fibers", || reach.load(Ordering::Acquire) == 20);
    });
    let hog = Hog::on(&runtime, 0);
    mid.store(true, Ordering::Release);
    let sum: i32 = receive.into_iter().map(|fiber| fiber.join().unwrap()).sum();
    assert_eq!(sum, 190);
    hog.end();
    end(runtime);
}

/// A migratable fiber that suspended on a worker which is now stuck continues elsewhere.
#[test]
fn a_spare_takes_migratable_fibers_that_are_unparked() {
    let runtime = workers(1);
    let parked = Arc::new(AtomicBool::new(false));
    let tell = parked.clone();
    let body = move || {
        tell.store(true, Ordering::Release);
        daiko::park();
    };
    let waiting = runtime.spawn_with(migratable(), body).unwrap();
    until("the migratable fiber", || parked.load(Ordering::Acquire));
    runtime.run(daiko::yield_now);
    let hog = Hog::on(&runtime, 0);
    waiting.fiber().unpark();
    waiting.join().unwrap();
    hog.end();
    end(runtime);
}

/// A message that waited for a stuck worker reaches it, though the monitor has looked through the
/// inbox.
#[test]
fn mail_survives_the_end_of_being_stuck() {
    let runtime = Runtime::builder().workers(1).preset(daiko::Preset::Power).build().unwrap();
    let (turn, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (answer, told) = (turn.clone(), stop.clone());
    let pinned = runtime.spawn_with(Builder::new().on(0), move || {
        while !told.load(Ordering::Acquire) {
            daiko::park();
            answer.fetch_add(1, Ordering::Release);
        }
    });
    let pinned = pinned.unwrap();
    for round in 1..=40 {
        let (before, seen) = (runtime.counters()[0].stuck, turn.load(Ordering::Acquire));
        let hog = Hog::on(&runtime, 0);
        until("the event", || runtime.counters()[0].stuck > before);
        pinned.fiber().unpark();
        // The monitor looks through the inbox each millisecond: the hog ends at any moment of a
        // look.
        let began = std::time::Instant::now();
        until("some moment", || began.elapsed().as_micros() >= 1000 + round * 70);
        hog.end();
        until("the wake", || turn.load(Ordering::Acquire) > seen);
        // The worker has not gone to sleep for good.
        assert_eq!(runtime.run(|| 5), 5);
    }
    stop.store(true, Ordering::Release);
    pinned.fiber().unpark();
    pinned.join().unwrap();
    end(runtime);
}

/// The runtime ends while the monitor has looked through the inbox, and may hold its messages.
#[test]
fn starts_in_the_mail_of_a_stuck_worker_are_waited_for() {
    for round in 1..=8 {
        let (runtime, drops) = (workers(1), Drops::default());
        let hog = Hog::on(&runtime, 0);
        until("the event", || runtime.counters()[0].stuck == 1);
        for _ in 0..10 {
            let token = drops.token();
            let body = move || drop(token);
            drop(runtime.spawn_with(Builder::new().on(0), body).unwrap());
        }
        let began = std::time::Instant::now();
        until("some moment", || began.elapsed().as_micros() >= 1000 + round * 150);
        hog.release.store(true, Ordering::Release);
        assert_eq!(runtime.shutdown().leaked, 0, "round {round}");
        drops.assert_all();
    }
}

/// Fibers that started on a spare stay there when the spare is no longer needed.
#[test]
fn a_spare_keeps_the_fibers_that_it_started() {
    let runtime = workers(1);
    let hog = Hog::on(&runtime, 0);
    let fibers: Vec<_> = (0..20)
        .map(|_| {
            let parked = Arc::new(AtomicBool::new(false));
            let tell = parked.clone();
            let fiber = runtime.spawn(move || {
                tell.store(true, Ordering::Release);
                let before = daiko_sys::thread::id();
                daiko::park();
                (before, daiko_sys::thread::id())
            });
            until("its start on the spare", || parked.load(Ordering::Acquire));
            fiber
        })
        .collect();
    hog.end();
    // The worker is back: from now on fibers may start there.
    assert_eq!(runtime.run(|| 5), 5);
    for fiber in fibers {
        fiber.fiber().unpark();
        let (before, after) = fiber.join().unwrap();
        assert_eq!(before, after, "pinned");
    }
    end(runtime);
}

/// Spawns a migratable fiber, and returns once it has run for the first time and is about to park.
fn parked_migratable(runtime: &Runtime, then: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let there = Arc::new(AtomicBool::new(false));
    let tell = there.clone();
    let body = move || {
        tell.store(true, Ordering::Release);
        daiko::park();
        then();
    };
    let fiber = runtime.spawn_with(migratable(), body).unwrap();
    until("its start", || there.load(Ordering::Acquire));
    fiber
}

/// Waits until the monitor of any runtime has looked: until that of another runtime has reported.
fn until_the_monitor_has_looked() {
    let other = workers(1);
    let hog = Hog::on(&other, 0);
    until("ten looks", || other.counters()[0].stuck == 1);
    hog.end();
    end(other);
}

#[test]
fn migratable_fibers_that_a_spare_ran_last_are_woken_after_its_release() {
    for preset in PRESETS {
        let runtime = Runtime::builder().workers(1).preset(preset).build().unwrap();
        let hog = Hog::on(&runtime, 0);
        let migratable: Vec<_> = (0..10).map(|_| parked_migratable(&runtime, || ())).collect();
        hog.end();
        until_the_monitor_has_looked();
        for fiber in migratable {
            fiber.fiber().unpark();
            fiber.join().unwrap();
        }
        end(runtime);
    }
}

/// Spawns a migratable fiber that wakes two migratable fibers, one of them into the LIFO slot, and
/// keeps the worker until both have run.
fn wakes_two_and_hogs(runtime: &Runtime) -> JoinHandle<()> {
    let ran = Arc::new(AtomicUsize::new(0));
    let woken = [0; 2].map(|_| {
        let count = ran.clone();
        parked_migratable(runtime, move || _ = count.fetch_add(1, Ordering::Release))
    });
    parked_migratable(runtime, move || {
        woken.iter().for_each(|migratable| migratable.fiber().unpark());
        until("the migratable fibers behind it", || {
            // A fiber that yields all the time would not be stuck.
            (0..10_000).for_each(|_| spin_loop());
            ran.load(Ordering::Acquire) == 2
        });
    })
}

#[test]
fn migratable_fibers_behind_a_hog_go_on_elsewhere() {
    for preset in PRESETS {
        let runtime = Runtime::builder().workers(1).preset(preset).build().unwrap();
        let hog = wakes_two_and_hogs(&runtime);
        hog.fiber().unpark();
        hog.join().unwrap();
        end(runtime);
    }
}

/// A worker that other threads keep from its CPU for most of the time is stuck all the same.
#[test]
fn migratable_fibers_behind_a_hog_beside_busy_threads_go_on_elsewhere() {
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 * std::thread::available_parallelism().unwrap().get() {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    spin_loop()
                }
            });
        }
        let _end = OnDrop(|| ends.store(true, Ordering::Relaxed));
        let runtime = workers(1);
        let hog = wakes_two_and_hogs(&runtime);
        hog.fiber().unpark();
        hog.join().unwrap();
        end(runtime);
    });
}

/// A spare has no further spare behind it: the worker itself must take the migratable fibers.
#[test]
fn migratable_fibers_behind_a_hog_on_a_released_spare_go_on_elsewhere() {
    for preset in PRESETS {
        let runtime = Runtime::builder().workers(1).preset(preset).build().unwrap();
        let first = Hog::on(&runtime, 0);
        let hog = wakes_two_and_hogs(&runtime);
        first.end();
        until_the_monitor_has_looked();
        hog.fiber().unpark();
        hog.join().unwrap();
        end(runtime);
    }
}

#[test]
fn a_blocking_call_leaves_its_worker_to_others() {
    run_on(Runtime::builder().workers(1), || {
        let (send, receive) = mpsc::channel();
        let here = daiko_sys::thread::id();
        let waiter = daiko::spawn(move || {
            daiko::blocking(move || (receive.recv().unwrap(), daiko_sys::thread::id()))
        });
        daiko::yield_now();
        // The worker is free; otherwise this line would never run.
        send.send(5).unwrap();
        let (value, there) = waiter.join().unwrap();
        assert_eq!(value, 5);
        assert_ne!(here, there);
    });
}

#[test]
fn a_panic_of_a_blocking_call_comes_through() {
    for builder in [Builder::new(), migratable()] {
        run_on(Runtime::builder().workers(2), move || {
            let body = || {
                let text = panic_of(|| daiko::blocking(|| panic!("in the pool")));
                assert_eq!(text, "in the pool");
                daiko::blocking(|| std::panic::resume_unwind(Box::new(17_u8)))
            };
            let fiber: JoinHandle<()> = builder.spawn(body).unwrap();
            let payload = fiber.join().unwrap_err().into_panic().unwrap();
            assert_eq!(*payload.downcast::<u8>().unwrap(), 17);
        });
    }
}

#[test]
fn six_hundred_blocking_calls_at_once() {
    const MOST: usize = 512;
    run_on(Runtime::builder().workers(2), || {
        let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let opened = Arc::new(AtomicBool::new(false));
        let fibers: Vec<_> = (0..600)
            .map(|i| {
                let (inside, most, opened) = (inside.clone(), most.clone(), opened.clone());
                let builder = if i % 2 == 0 { migratable() } else { Builder::new() };
                let body = move || {
                    daiko::blocking(|| {
                        let now = inside.fetch_add(1, Ordering::AcqRel) + 1;
                        most.fetch_max(now, Ordering::Relaxed);
                        if now == MOST {
                            opened.store(true, Ordering::Release);
                        }
                        until("as many calls as may run", || opened.load(Ordering::Acquire));
                        inside.fetch_sub(1, Ordering::AcqRel);
                        i
                    })
                };
                builder.spawn(body).unwrap()
            })
            .collect();
        let sum: usize = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
        assert_eq!(sum, 600 * 599 / 2);
        assert_eq!(most.load(Ordering::Relaxed), MOST);
    });
}

#[test]
fn blocking_calls_nest_through_runtimes() {
    run_on(Runtime::builder().workers(1), || {
        let sum = daiko::blocking(|| {
            assert!(daiko::try_current().is_none(), "the pool's threads are no fibers");
            let inner = workers(1);
            let sum = inner.run(|| {
                let here = daiko::spawn(|| 1).join().unwrap();
                here + daiko::blocking(|| 2 + daiko::blocking(|| 4))
            });
            end(inner);
            sum + daiko::run(|| 8)
        });
        assert_eq!(sum, 15);
    });
}

/// The agent polls after a number of resumptions. Two fibers that run for long between them would
/// keep it from that, but for the monitor.
#[test]
fn the_agent_polls_behind_fibers_that_run_for_long() {
    const ROUNDS: usize = 40;
    let runtime = workers(1);
    let (rounds, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let hog = || {
        let (rounds, done) = (rounds.clone(), done.clone());
        move || {
            while !done.load(Ordering::Relaxed) {
                rounds.fetch_add(1, Ordering::Relaxed);
                let since = Instant::now();
                while since.elapsed() < Duration::from_millis(20) {
                    spin_loop();
                }
                daiko::yield_now();
            }
        }
    };
    let hogs = [hog(), hog()].map(|hog| runtime.spawn_with(Builder::new().on(0), hog).unwrap());
    until("both run", || rounds.load(Ordering::Relaxed) >= 2);
    let polls = || runtime.counters()[0].polls;
    let before = polls();
    until("polls", || polls() >= before + 3 || rounds.load(Ordering::Relaxed) >= ROUNDS);
    let polled = polls() - before;
    done.store(true, Ordering::Relaxed);
    assert!(polled >= 3, "{polled} in {ROUNDS} rounds");
    hogs.into_iter().for_each(|hog| hog.join().unwrap());
    end(runtime);
}
