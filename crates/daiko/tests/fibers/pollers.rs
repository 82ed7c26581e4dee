//! Completion sources of users.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use crate::support::{
    Drops, PRESETS, Token, end, migratable, panic_of, run_on, until, workers, yield_until,
};
use daiko::agent::{self, Poller, Registration};
use daiko::watch::{self, at_least};
use daiko::{Builder, Fiber, Preset, Runtime};

/// A device with a queue of completions: each names the fiber that waits for it.
#[derive(Default)]
struct Device {
    submitted: Mutex<Vec<(Fiber, Arc<AtomicBool>)>>,
}

impl Device {
    /// Suspends until the device has completed the request.
    fn request(&self) {
        let done = Arc::new(AtomicBool::new(false));
        self.submitted.lock().unwrap().push((daiko::current(), done.clone()));
        while !done.load(Ordering::Acquire) {
            daiko::park();
        }
    }
}

struct DevicePoller(Arc<Device>);

impl Poller for DevicePoller {
    fn poll(&mut self) -> usize {
        let completed = std::mem::take(&mut *self.0.submitted.lock().unwrap());
        for (fiber, done) in &completed {
            done.store(true, Ordering::Release);
            fiber.unpark();
        }
        completed.len()
    }
}

#[test]
fn completions_resume_fibers() {
    for workers in 1..=2 {
        for preset in PRESETS {
            run_on(Runtime::builder().workers(workers).preset(preset), || {
                let device = Arc::new(Device::default());
                let _registration = agent::register(DevicePoller(device.clone()));
                let fibers: Vec<_> = (0..20)
                    .map(|i| {
                        let device = device.clone();
                        let builder = if i % 2 == 0 { migratable() } else { Builder::new() };
                        let body = move || (0..20).for_each(|_| device.request());
                        builder.spawn(body).unwrap()
                    })
                    .collect();
                fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
            });
        }
    }
}

/// The poller runs in the last round, after the look for fibers that any worker may start. No
/// worker is parked that could be woken for the fiber.
#[test]
fn work_in_the_last_round_before_a_park_is_found() {
    // The agent parks without a second round.
    let runtime = Runtime::builder().workers(1).preset(Preset::Power).build().unwrap();
    let (asks, asked) = mpsc::channel();
    let (tells, told) = mpsc::channel();
    let waiter = runtime.spawn(move || {
        let registration = Arc::new(Mutex::new(None));
        let own = registration.clone();
        *registration.lock().unwrap() = Some(agent::register(move || {
            // Without a poller, agents park until they are woken.
            drop(own.lock().unwrap().take());
            asks.send(()).unwrap();
            told.recv().unwrap();
            0
        }));
        daiko::park();
    });
    asked.recv().unwrap();
    let fiber = waiter.fiber().clone();
    let starts = runtime.spawn(move || fiber.unpark());
    tells.send(()).unwrap();
    until("the fiber that was spawned meanwhile", || starts.is_finished());
    starts.join().unwrap();
    waiter.join().unwrap();
    end(runtime);
}

/// Runnable fibers of a busy worker do not starve the sources.
#[test]
fn a_source_is_polled_while_fibers_are_runnable() {
    run_on(Runtime::builder().workers(1), || {
        let device = Arc::new(Device::default());
        let _registration = agent::register(DevicePoller(device.clone()));
        let busy = Arc::new(AtomicBool::new(true));
        let going = busy.clone();
        let spinner = daiko::spawn(move || {
            yield_until("the request", || !going.load(Ordering::Acquire));
        });
        daiko::spawn(move || device.request()).join().unwrap();
        busy.store(false, Ordering::Release);
        spinner.join().unwrap();
    });
}

/// Polls until its word is 1, then panics.
fn panicking(word: &Arc<AtomicU64>, token: Token) -> impl Poller + use<> {
    let word = word.clone();
    move || {
        let _token = &token;
        if word.load(Ordering::Acquire) == 1 {
            std::panic::resume_unwind(Box::new("the poller"));
        }
        0
    }
}

#[test]
fn a_poller_that_panics_is_dropped_and_does_no_harm() {
    for workers in 1..=2 {
        let (drops, word) = (Drops::default(), Arc::new(AtomicU64::new(0)));
        let token = drops.token();
        let counted = drops.clone();
        run_on(Runtime::builder().workers(workers), move || {
            let device = Arc::new(Device::default());
            let bad = agent::register(panicking(&word, token));
            let good = agent::register(DevicePoller(device.clone()));
            device.request();
            assert!(!bad.has_panicked());
            word.store(1, Ordering::Release);
            let deadline = device.clone();
            yield_until("the panic", || bad.has_panicked());
            assert_eq!(counted.dropped(), 1);
            deadline.request();
            assert!(!good.has_panicked());
            assert_eq!(daiko::spawn(|| 5).join().unwrap(), 5);
        });
        drops.assert_all();
    }
}

/// A poller that panics again when it is dropped does no harm either.
#[test]
fn a_poller_that_panics_when_dropped_does_no_harm() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("the drop"));
        }
    }
    impl Poller for Bomb {
        fn poll(&mut self) -> usize {
            std::panic::resume_unwind(Box::new("the poll"));
        }
    }
    run_on(Runtime::builder().workers(1), || {
        let registration = agent::register(Bomb);
        let device = Arc::new(Device::default());
        let _good = agent::register(DevicePoller(device.clone()));
        yield_until("the panic", || registration.has_panicked());
        device.request();
    });
}

#[test]
fn a_poller_that_wants_to_suspend_panics() {
    run_on(Runtime::builder().workers(1), || {
        let texts = Arc::new(Mutex::new(Vec::new()));
        let told = texts.clone();
        let word = AtomicU64::new(0);
        let poller = move || {
            let mut texts = told.lock().unwrap();
            if texts.is_empty() {
                texts.push(panic_of(daiko::park));
                texts.push(panic_of(daiko::yield_now));
                texts.push(panic_of(|| watch::wait_until(&word, at_least(1))));
            }
            0
        };
        let registration = agent::register(poller);
        yield_until("a poll", || !texts.lock().unwrap().is_empty());
        assert!(!registration.has_panicked(), "it caught them");
        for (text, expected) in
            texts.lock().unwrap().iter().zip(["park", "yield_now", "watch::wait_until"])
        {
            assert!(text.starts_with(&format!("daiko: {expected} is for fibers")), "{text}");
        }
        let suspending = agent::register(|| {
            daiko::park();
            0
        });
        yield_until("its panic", || suspending.has_panicked());
    });
}

/// While the poller waits, its agent would poll nothing, perhaps not even the source that would end
/// the wait.
#[test]
fn a_poller_that_wants_to_wait_panics() {
    run_on(Runtime::builder().workers(1), || {
        let texts = Arc::new(Mutex::new(Vec::new()));
        let told = texts.clone();
        let going_on = Arc::new(AtomicBool::new(false));
        let tell = going_on.clone();
        let parked = daiko::spawn(move || {
            daiko::park();
            tell.store(true, Ordering::Release);
        });
        let ended = daiko::spawn(|| 5);
        yield_until("its end", || ended.is_finished());
        let fiber = parked.fiber().clone();
        let mut handles = Some((parked, ended));
        let _registration = agent::register(move || {
            if let Some((parked, ended)) = handles.take() {
                assert_eq!(ended.join().unwrap(), 5, "no wait");
                let joined = panic_of(|| parked.join());
                let blocked = panic_of(|| daiko::blocking(|| ()));
                let scoped = panic_of(|| daiko::scope(|_| ()));
                told.lock().unwrap().extend([joined, blocked, scoped]);
            }
            0
        });
        yield_until("a poll", || !texts.lock().unwrap().is_empty());
        for (text, expected) in texts.lock().unwrap().iter().zip(["join", "blocking", "scope"]) {
            let start = format!("daiko: a poller must not wait in {expected};");
            assert!(text.starts_with(&start) && text.lines().count() == 1, "{text}");
        }
        fiber.unpark();
        yield_until("the end of the detached fiber", || going_on.load(Ordering::Acquire));
    });
}

/// Once the drop of its registration has returned, a poller no longer runs, and has been dropped.
#[test]
fn a_registration_may_be_dropped_while_its_poller_runs() {
    let runtime = workers(2);
    let drops = Drops::default();
    for _ in 0..100 {
        let (token, inside) = (drops.token(), Arc::new(AtomicUsize::new(0)));
        let (polls, leave) = (inside.clone(), Arc::new(AtomicBool::new(false)));
        let told = leave.clone();
        let registration = runtime.run(move || {
            agent::register(move || {
                let _token = &token;
                polls.store(1, Ordering::Release);
                while !told.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                polls.store(2, Ordering::Release);
                polls.store(0, Ordering::Release);
                0
            })
        });
        until("the poller inside", || inside.load(Ordering::Acquire) == 1);
        std::thread::scope(|threads| {
            let dropper = threads.spawn(|| {
                drop(registration);
                (inside.load(Ordering::Acquire), drops.dropped() == drops.made())
            });
            leave.store(true, Ordering::Release);
            assert_eq!(dropper.join().unwrap(), (0, true), "not running, and dropped");
        });
    }
    end(runtime);
    drops.assert_all();
}

#[test]
fn a_poller_may_drop_its_own_registration() {
    for workers in 1..=2 {
        let drops = Drops::default();
        let token = drops.token();
        let counted = drops.clone();
        run_on(Runtime::builder().workers(workers), move || {
            let own = Arc::new(Mutex::new(None::<Registration>));
            let (mine, polls) = (own.clone(), Arc::new(AtomicUsize::new(0)));
            let count = polls.clone();
            let registration = agent::register(move || {
                let _token = &token;
                if mine.lock().unwrap().take().is_some() {
                    count.fetch_add(1, Ordering::Release);
                    // Its own drop has not dropped the poller, as it still runs.
                    assert_eq!(counted.dropped(), 0);
                }
                0
            });
            *own.lock().unwrap() = Some(registration);
            yield_until("the drop", || Arc::strong_count(&own) == 1);
            assert_eq!(polls.load(Ordering::Acquire), 1);
        });
        drops.assert_all();
    }
}

/// Two pollers that waited for each other here would wait for ever.
#[test]
fn pollers_that_run_may_drop_each_other() {
    run_on(Runtime::builder().workers(2), || {
        let registrations: Arc<[Mutex<Option<Registration>>; 2]> = Arc::default();
        let inside = Arc::new(AtomicUsize::new(0));
        for own in 0..2 {
            let (all, inside) = (registrations.clone(), inside.clone());
            let registration = agent::register(move || {
                inside.fetch_add(1, Ordering::AcqRel);
                until("both inside", || inside.load(Ordering::Acquire) >= 2);
                drop(all[1 - own].lock().unwrap().take());
                0
            });
            *registrations[own].lock().unwrap() = Some(registration);
        }
        yield_until("both drops", || Arc::strong_count(&registrations) == 1);
    });
}

#[test]
fn pollers_may_register_and_drop_others() {
    run_on(Runtime::builder().workers(1), || {
        let polls = Arc::new(AtomicUsize::new(0));
        let count = polls.clone();
        let mut other: Option<Registration> = None;
        let mut done = false;
        let ended = Arc::new(AtomicBool::new(false));
        let tell = ended.clone();
        let _registration = agent::register(move || {
            if done {
                return 0;
            }
            match &other {
                None => {
                    let count = count.clone();
                    other = Some(agent::register(move || {
                        count.fetch_add(1, Ordering::Relaxed);
                        0
                    }));
                }
                Some(_) if count.load(Ordering::Relaxed) > 0 => {
                    other = None;
                    done = true;
                    tell.store(true, Ordering::Release);
                }
                Some(_) => {}
            }
            0
        });
        yield_until("the end of the other", || ended.load(Ordering::Acquire));
        let polled = polls.load(Ordering::Relaxed);
        (0..1000).for_each(|_| daiko::yield_now());
        assert_eq!(polls.load(Ordering::Relaxed), polled, "it is polled no more");
    });
}

#[test]
fn a_registration_may_outlive_its_runtime() {
    let drops = Drops::default();
    for dropped_first in [false, true] {
        let runtime = workers(1);
        let token = drops.token();
        let registration = runtime.run(move || {
            agent::register(move || {
                let _token = &token;
                0
            })
        });
        if dropped_first {
            drop(registration);
            end(runtime);
        } else {
            end(runtime);
            assert!(!registration.has_panicked());
            drop(registration);
        }
        drops.assert_all();
    }
}
