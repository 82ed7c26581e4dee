//! Pollers that are inactive for a time, belong to a worker, or complete a wait with a value.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::{Drops, PRESETS, assert_names, end, run_on, until, workers, yield_until};
use daiko::agent::{self, PollerBuilder, RegisterError, Registration};
use daiko::sync::channel::{OneshotSender, RecvError, oneshot};
use daiko::watch::{WatchBuilder, at_least, changed_from};
use daiko::{Builder, Runtime};

/// A source that completes one wait at a time. Its poller is active only while there is a wait.
#[derive(Default)]
struct Source {
    waiter: Mutex<Option<OneshotSender<usize>>>,
    registration: Mutex<Option<Arc<Registration>>>,
    polls: AtomicUsize,
}

impl Source {
    fn new(runtime: &Runtime, builder: PollerBuilder) -> Arc<Self> {
        let source = Arc::new(Source::default());
        let polled = source.clone();
        let registration = builder.inactive().register_in(runtime, move || polled.poll()).unwrap();
        *source.registration.lock().unwrap() = Some(Arc::new(registration));
        source
    }

    fn registration(&self) -> Arc<Registration> {
        self.registration.lock().unwrap().clone().unwrap()
    }

    fn poll(&self) -> usize {
        let polls = self.polls.fetch_add(1, Ordering::Relaxed);
        let Some(waiter) = self.waiter.lock().unwrap().take() else { return 0 };
        self.registration().set_active(false);
        waiter.send(polls).unwrap();
        1
    }

    /// Waits for a completion, as a thread or a fiber.
    fn request(&self) {
        let (waiter, completion) = oneshot();
        *self.waiter.lock().unwrap() = Some(waiter);
        self.registration().set_active(true);
        completion.recv().unwrap();
    }

    /// Ends the registration, which the poller has as well.
    fn end(&self) {
        let registration = self.registration.lock().unwrap().take().unwrap();
        assert!(!registration.is_active() && !registration.has_panicked());
    }
}

/// Calls `each` with a runtime, for each preset and two numbers of workers.
fn on_each_runtime(each: impl Fn(&Runtime)) {
    for count in 1..=2 {
        for preset in PRESETS {
            let runtime = Runtime::builder().workers(count).preset(preset).build().unwrap();
            each(&runtime);
            end(runtime);
        }
    }
}

/// Between two rounds the worker has fallen asleep, is about to, or still looks.
#[test]
fn an_activation_by_a_thread_reaches_workers_that_fall_asleep() {
    on_each_runtime(|runtime| {
        for builder in [PollerBuilder::new(), PollerBuilder::new().on(0).peer_elsewhere()] {
            let source = Source::new(runtime, builder);
            (0..200).for_each(|_| source.request());
            source.end();
        }
    });
}

#[test]
fn an_activation_by_a_fiber_reaches_its_worker_and_another() {
    on_each_runtime(|runtime| {
        for worker in 0..runtime.workers() {
            let source = Source::new(runtime, PollerBuilder::new().on(worker));
            let asked = source.clone();
            runtime.run(move || (0..200).for_each(|_| asked.request()));
            source.end();
        }
    });
}

/// Two pollers that are active in turn, by each other.
#[test]
fn a_poller_may_activate_another_and_deactivate_itself() {
    const TURNS: usize = 100;
    on_each_runtime(|runtime| {
        let registrations: Arc<[Mutex<Option<Arc<Registration>>>; 2]> = Arc::default();
        let turns = Arc::new(AtomicUsize::new(0));
        for own in 0..2 {
            let (all, turns) = (registrations.clone(), turns.clone());
            let get = move |at: usize| all[at].lock().unwrap().clone();
            let poller = move || {
                let (Some(own), Some(other)) = (get(own), get(1 - own)) else { return 0 };
                own.set_active(false);
                assert!(!own.is_active());
                if turns.fetch_add(1, Ordering::AcqRel) + 1 < TURNS {
                    other.set_active(true);
                }
                1
            };
            let registered = PollerBuilder::new().inactive().register_in(runtime, poller).unwrap();
            *registrations[own].lock().unwrap() = Some(Arc::new(registered));
        }
        let first = registrations[0].lock().unwrap().clone().unwrap();
        first.set_active(true);
        until("all turns", || turns.load(Ordering::Acquire) == TURNS);
        drop(first);
        registrations.iter().for_each(|one| drop(one.lock().unwrap().take()));
        assert_eq!(turns.load(Ordering::Acquire), TURNS);
    });
}

#[test]
fn no_call_begins_once_a_poller_is_inactive() {
    for preset in PRESETS {
        let runtime = Runtime::builder().workers(2).preset(preset).build().unwrap();
        let polls = Arc::new(AtomicUsize::new(0));
        let count = polls.clone();
        let inside = Arc::new(AtomicBool::new(false));
        let is_inside = inside.clone();
        let poller = move || {
            is_inside.store(true, Ordering::SeqCst);
            count.fetch_add(1, Ordering::SeqCst);
            is_inside.store(false, Ordering::SeqCst);
            0
        };
        let registration = PollerBuilder::new().register_in(&runtime, poller).unwrap();
        for _ in 0..50 {
            let before = polls.load(Ordering::SeqCst);
            registration.set_active(true);
            registration.set_active(true);
            until("a poll", || polls.load(Ordering::SeqCst) > before);
            registration.set_active(false);
            registration.set_active(false);
            until("the end of a call", || !inside.load(Ordering::SeqCst));
            // A call that had begun, but was not seen inside, counts at most once.
            let after = polls.load(Ordering::SeqCst);
            runtime.run(|| (0..200).for_each(|_| daiko::yield_now()));
            assert!(polls.load(Ordering::SeqCst) <= after + 1);
        }
        end(runtime);
    }
}

/// Threads that change the state of a poller that runs, until it is dropped.
#[test]
fn a_poller_is_dropped_once_amid_changes_of_its_state() {
    let runtime = workers(2);
    let drops = Drops::default();
    for builder in [|| PollerBuilder::new(), || PollerBuilder::new().on(1).peer_elsewhere()] {
        for _ in 0..20 {
            let token = drops.token();
            let poller = move || {
                let _token = &token;
                0
            };
            let registration = builder().register_in(&runtime, poller).unwrap();
            thread::scope(|threads| {
                for first in [true, false] {
                    let registration = &registration;
                    threads.spawn(move || {
                        (0..100).for_each(|_| {
                            registration.set_active(first);
                            registration.set_active(!first);
                        });
                    });
                }
            });
            drop(registration);
            assert_eq!(drops.dropped(), drops.made());
        }
    }
    end(runtime);
    drops.assert_all();
}

#[test]
fn only_the_worker_of_a_poller_calls_it() {
    let runtime = workers(2);
    for worker in 0..2 {
        let on_worker = Builder::new().on(worker);
        let own = runtime.spawn_with(on_worker, daiko_sys::thread::id).unwrap().join().unwrap();
        let polls = Arc::new(AtomicUsize::new(0));
        let (count, elsewhere) = (polls.clone(), Arc::new(AtomicUsize::new(0)));
        let wrong = elsewhere.clone();
        let poller = move || {
            wrong.fetch_add(usize::from(daiko_sys::thread::id() != own), Ordering::Relaxed);
            count.fetch_add(1, Ordering::Release) + 1
        };
        let registration = PollerBuilder::new().on(worker).register_in(&runtime, poller).unwrap();
        until("polls", || polls.load(Ordering::Acquire) > 100);
        runtime.run(|| (0..1000).for_each(|_| daiko::yield_now()));
        drop(registration);
        assert_eq!(elsewhere.load(Ordering::Relaxed), 0);
    }
    end(runtime);
}

/// The waiter of a poller that panics gets an error, and no agent stays awake for the poller.
#[test]
fn a_wait_ends_with_its_poller() {
    run_on(Runtime::builder().workers(1), || {
        let (waiter, completion) = oneshot::<()>();
        let registration = agent::register(move || {
            let _waiter = &waiter;
            std::panic::resume_unwind(Box::new("the poller"))
        });
        assert_eq!(completion.recv(), Err(RecvError));
        yield_until("the end of the poller", || !registration.is_active());
        assert!(registration.has_panicked());
        registration.set_active(true);
        assert!(!registration.is_active());

        let (waiter, completion) = oneshot::<()>();
        let kept = move || {
            let _waiter = &waiter;
            0
        };
        let registration = PollerBuilder::new().inactive().register(kept).unwrap();
        let receiver = daiko::spawn(move || completion.recv());
        daiko::yield_now();
        drop(registration);
        assert_eq!(receiver.join().unwrap(), Err(RecvError));
    });
}

#[test]
fn the_state_of_a_poller_may_change_after_its_runtime() {
    let drops = Drops::default();
    for builder in [|| PollerBuilder::new(), || PollerBuilder::new().on(0).inactive()] {
        let runtime = workers(1);
        let token = drops.token();
        let poller = move || {
            let _token = &token;
            0
        };
        let registration = builder().register_in(&runtime, poller).unwrap();
        let was_active = registration.is_active();
        end(runtime);
        registration.set_active(!was_active);
        registration.set_active(was_active);
        assert_eq!(registration.is_active(), was_active);
        drop(registration);
        drops.assert_all();
    }
}

#[test]
fn a_registration_that_is_not_possible_drops_the_poller() {
    let (runtime, drops) = (workers(2), Drops::default());
    let attempt = |builder: PollerBuilder| {
        let token = drops.token();
        let poller = move || {
            let _token = &token;
            0
        };
        builder.register_in(&runtime, poller).unwrap_err()
    };
    let error = attempt(PollerBuilder::new().on(2));
    assert!(matches!(error, RegisterError::NoSuchWorker { worker: 2, workers: 2 }));
    assert_names(&error, "PollerBuilder::on");
    let error = attempt(PollerBuilder::new().wake_fd(File::open("/proc/self/exe").unwrap()));
    assert!(matches!(error, RegisterError::AlwaysReady));
    assert_names(&error, "a pipe, socket or eventfd");
    end(runtime);
    drops.assert_all();
}

#[test]
fn a_watch_for_a_writer_elsewhere_ends_by_a_plain_store() {
    on_each_runtime(|runtime| {
        let words: Arc<[AtomicU64; 2]> = Arc::default();
        let asked = words.clone();
        let writer = thread::spawn(move || {
            for round in 1..=100 {
                until("a question", || asked[0].load(Ordering::Acquire) == round);
                asked[1].store(round, Ordering::Release);
            }
        });
        runtime.run(move || {
            let elsewhere = WatchBuilder::new().peer_elsewhere();
            for round in 1..=100 {
                words[0].store(round, Ordering::Release);
                assert_eq!(elsewhere.wait_until(&words[1], at_least(round)), round);
            }
            let short = std::time::Duration::from_micros(10);
            assert!(elsewhere.wait_until_timeout(&words[1], changed_from(100), short).is_err());
            assert_eq!(WatchBuilder::new().wait_until(&words[1], at_least(1)), 100);
        });
        writer.join().unwrap();
    });
}
