//! Presets change while fibers wait, and counters count the events.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crate::support::{PRESETS, end, migratable, until, workers};
use daiko::watch::{self, NotificationArea, at_least};
use daiko::{Builder, Fiber, JoinHandle, Preset, Runtime, SpinReason, WorkerCounters};
use daiko_sys::cpu::{self, CpuSet};

/// Fibers that wait in every way, and the objects that end their waits.
struct Waiters {
    word: Arc<AtomicU64>,
    areas: [NotificationArea<u64>; 2],
    parked: Vec<daiko::Fiber>,
    ended: Arc<AtomicUsize>,
    handles: Vec<JoinHandle<()>>,
}

impl Waiters {
    /// Spawns ten fibers for each way; all wait, or are about to.
    fn spawn(runtime: &Runtime) -> Self {
        let (polled, polled_slots) = runtime.run(|| NotificationArea::new(10));
        let (notified, notified_slots) = runtime.run(|| NotificationArea::notified(10));
        let mut waiters = Waiters {
            word: Arc::default(),
            areas: [polled, notified],
            parked: Vec::new(),
            ended: Arc::default(),
            handles: Vec::new(),
        };
        let released = waiters.word.clone();
        for i in 0..10 {
            let word = released.clone();
            let parked = move || {
                while word.load(Ordering::Acquire) == 0 {
                    daiko::park();
                }
            };
            waiters.add(runtime, i, parked);
            waiters.parked.push(waiters.handles.last().unwrap().fiber().clone());
            let word = released.clone();
            waiters.add(runtime, i, move || _ = watch::wait_until(&*word, at_least(1)));
            let word = released.clone();
            waiters.add(runtime, i, move || _ = watch::wait_until_notified(&*word, at_least(1)));
        }
        for mut slot in polled_slots.into_iter().chain(notified_slots) {
            waiters.add(runtime, slot.index(), move || _ = slot.wait().unwrap());
        }
        waiters
    }

    fn add(&mut self, runtime: &Runtime, i: usize, wait: impl FnOnce() + Send + 'static) {
        let ended = self.ended.clone();
        let body = move || {
            wait();
            ended.fetch_add(1, Ordering::Release);
        };
        let builder = if i.is_multiple_of(2) { migratable() } else { Builder::new() };
        self.handles.push(runtime.spawn_with(builder, body).unwrap());
    }

    fn release(self, runtime: &Runtime) {
        assert_eq!(self.ended.load(Ordering::Acquire), 0, "no wait has ended");
        self.word.store(1, Ordering::Release);
        watch::notify_in(runtime, &*self.word);
        for area in &self.areas {
            (0..10).for_each(|index| area.notify(index));
        }
        self.parked.iter().for_each(daiko::Fiber::unpark);
        let all = self.handles.len();
        until("the end of all waits", || self.ended.load(Ordering::Acquire) == all);
        self.handles.into_iter().for_each(|handle| handle.join().unwrap());
    }
}

#[test]
fn no_wait_is_lost_when_the_preset_changes() {
    for workers in 1..=3 {
        for from in PRESETS {
            for to in PRESETS {
                let runtime = Runtime::builder().workers(workers).preset(from).build().unwrap();
                let waiters = Waiters::spawn(&runtime);
                assert_eq!(runtime.preset(), from);
                runtime.set_preset(to);
                assert_eq!(runtime.preset(), to);
                waiters.release(&runtime);
                end(runtime);
            }
        }
    }
}

#[test]
fn no_wait_is_lost_while_presets_change_all_the_time() {
    let runtime = workers(2);
    let going = AtomicBool::new(true);
    thread::scope(|threads| {
        threads.spawn(|| {
            for (preset, agents) in PRESETS.into_iter().zip([0, 1, usize::MAX]).cycle() {
                runtime.set_preset(preset);
                runtime.set_max_agents(agents);
                if !going.load(Ordering::Acquire) {
                    break;
                }
                thread::yield_now();
            }
        });
        for _ in 0..50 {
            Waiters::spawn(&runtime).release(&runtime);
        }
        going.store(false, Ordering::Release);
    });
    end(runtime);
}

type Field = fn(&WorkerCounters) -> u64;

const FIELDS: [(&str, Field); 15] = [
    ("switches", |c| c.switches),
    ("starts", |c| c.starts),
    ("ends", |c| c.ends),
    ("wakes_local", |c| c.wakes_local),
    ("mails_sent", |c| c.mails_sent),
    ("mails_received", |c| c.mails_received),
    ("watch_hits", |c| c.watch_hits),
    ("polls", |c| c.polls),
    ("parks", |c| c.parks),
    ("unparks", |c| c.unparks),
    ("steals", |c| c.steals),
    ("overtakes", |c| c.overtakes),
    ("imbalance", |c| c.imbalance),
    ("stuck", |c| c.stuck),
    ("unwound", |c| c.unwound),
];

fn sum(counters: &[WorkerCounters], field: Field) -> u64 {
    counters.iter().map(field).sum()
}

#[test]
fn counters_never_go_back() {
    let runtime = workers(2);
    let going = AtomicBool::new(true);
    thread::scope(|threads| {
        threads.spawn(|| {
            for _ in 0..30 {
                Waiters::spawn(&runtime).release(&runtime);
            }
            going.store(false, Ordering::Release);
        });
        let mut before = runtime.counters();
        while going.load(Ordering::Acquire) {
            let now = runtime.counters();
            for (old, new) in before.iter().zip(&now) {
                for (name, field) in FIELDS {
                    assert!(field(old) <= field(new), "{name}: {old:?}, {new:?}");
                }
            }
            before = now;
        }
    });
    let counters = runtime.counters();
    assert_eq!(counters.len(), 4, "two workers and their spares");
    // Each round has fifty waiters, and two fibers that made an area.
    until("the end of all", || sum(&runtime.counters(), |c| c.ends) == 30 * 52);
    let counters = runtime.counters();
    assert_eq!(sum(&counters, |c| c.starts), 30 * 52);
    assert!(sum(&counters, |c| c.switches) >= 30 * 52);
    assert!(sum(&counters, |c| c.polls) > 0);
    assert!(sum(&counters, |c| c.watch_hits) > 0, "fibers waited for words");
    assert!(sum(&counters, |c| c.mails_received) > 0, "this thread woke them");
    assert_eq!(sum(&counters, |c| c.unwound), 0);
    end(runtime);
}

#[test]
fn wakes_are_counted_by_path() {
    let runtime = workers(2);
    let before = runtime.counters();
    // A fiber on worker 0 wakes a neighbour a hundred times, then a fiber on the other worker.
    for (on, woken) in [(0, "a neighbour"), (1, "the other worker's")] {
        let pair = move || {
            let turn = Arc::new(AtomicU64::new(0));
            let (own, starter) = (turn.clone(), daiko::current());
            let pong = Builder::new().on(on).spawn(move || {
                for lap in 0..100 {
                    while own.load(Ordering::Acquire) != 2 * lap + 1 {
                        daiko::park();
                    }
                    own.store(2 * lap + 2, Ordering::Release);
                    starter.unpark();
                }
            });
            let pong = pong.unwrap();
            for lap in 0..100 {
                turn.store(2 * lap + 1, Ordering::Release);
                pong.fiber().unpark();
                while turn.load(Ordering::Acquire) != 2 * lap + 2 {
                    daiko::park();
                }
            }
            pong.join().unwrap();
        };
        let ping = runtime.spawn_with(Builder::new().on(0).name(woken), pair).unwrap();
        ping.join().unwrap();
    }
    let since =
        |worker: usize, field: Field| field(&runtime.counters()[worker]) - field(&before[worker]);
    assert!(since(0, |c| c.wakes_local) >= 100, "{:?}", runtime.counters());
    // Unread messages to one fiber are merged, so that there may be fewer. A placed start is a
    // message, too, even to its own worker.
    for worker in 0..2 {
        assert!((1..=102).contains(&since(worker, |c| c.mails_sent)), "{:?}", runtime.counters());
        assert!((1..=204).contains(&since(worker, |c| c.mails_received)));
    }
    assert_eq!(since(0, |c| c.steals) + since(0, |c| c.imbalance), 0, "all were placed");
    end(runtime);
}

#[test]
fn stolen_fibers_are_counted() {
    let runtime = workers(2);
    let ended = Arc::new(AtomicUsize::new(0));
    // The local queue of its worker is full of fibers that only other workers can run.
    let hog = runtime.spawn_with(Builder::new().on(0), move || {
        for _ in 0..50 {
            let ended = ended.clone();
            drop(daiko::spawn(move || _ = ended.fetch_add(1, Ordering::Release)));
        }
        until("the end of the other fibers", || ended.load(Ordering::Acquire) == 50);
    });
    hog.unwrap().join().unwrap();
    let counters = runtime.counters();
    assert!(counters[1..].iter().any(|counters| counters.steals > 0), "{counters:?}");
    assert_eq!(counters[0].steals, 0);
    end(runtime);
}

#[test]
fn idle_workers_park_unless_told_to_spin() {
    let builder = Runtime::builder().workers(2).all_active().preset(Preset::Power);
    let runtime = builder.build().unwrap();
    let parks = |worker: usize| runtime.counters()[worker].parks;
    until("the parks of idle workers", || parks(0) > 0 && parks(1) > 0);
    // Each wake of a parked worker costs an unpark, and ends in another park.
    for _ in 0..20 {
        let before = parks(0);
        runtime.spawn_with(Builder::new().on(0), || ()).unwrap().join().unwrap();
        until("another park", || parks(0) > before);
    }
    runtime.set_preset(Preset::Latency);
    if daiko_sys::cpu::allowed().unwrap().iter().count() > 1 {
        // Under this preset the agents spin, and poll without being woken.
        until("polls without work", || {
            let before = runtime.counters()[0].polls;
            runtime.counters()[0].polls > before
        });
    }
    end(runtime);
}

/// An agent that wakes for a poll, and finds nothing, does not spin once more.
#[test]
fn a_polled_watch_is_sampled_without_spinning() {
    let runtime = Runtime::builder().workers(1).preset(Preset::Balanced).build().unwrap();
    let word = Arc::new(AtomicU64::new(0));
    let watched = word.clone();
    let waiter = runtime.spawn(move || watch::wait_until(&*watched, at_least(1)));
    let counters = || runtime.counters()[0];
    until("the first samples", || counters().parks > 10);
    let before = counters();
    until("a hundred samples", || counters().parks >= before.parks + 100);
    let after = counters();
    let (parks, polls) = (after.parks - before.parks, after.polls - before.polls);
    assert!(polls <= 3 * parks, "{polls} polls in {parks} parks");
    word.store(1, Ordering::Release);
    assert_eq!(waiter.join().unwrap(), 1);
    end(runtime);
}

/// Returns the polls per hop of two fibers that wake each other, on two workers that the kernel has
/// put on one CPU.
fn polls_on_one_cpu(preset: Preset) -> u64 {
    // So many that the polls before the first hop and after the last, some time slices of them, are
    // few beside.
    const HOPS: u64 = 4_000;
    let runtime = Runtime::builder().workers(2).preset(preset).build().unwrap();
    let one = CpuSet::from_iter(cpu::allowed().unwrap().iter().take(1));
    let others = Arc::new([const { OnceLock::<Fiber>::new() }; 2]);
    let fibers = [0, 1].map(|worker| {
        let (one, others) = (one.clone(), others.clone());
        let body = move || {
            cpu::bind_current(&one).unwrap();
            let other = others[worker].wait();
            for _ in 0..HOPS {
                daiko::park();
                other.unpark();
            }
        };
        runtime.spawn_with(Builder::new().on(worker), body).unwrap()
    });
    let polls = || -> u64 { runtime.counters().iter().map(|counters| counters.polls).sum() };
    let before = polls();
    for (other, fiber) in others.iter().rev().zip(&fibers) {
        other.set(fiber.fiber().clone()).unwrap();
    }
    fibers[0].fiber().unpark();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    let polls = polls() - before;
    end(runtime);
    polls / HOPS
}

/// An agent that polls for its preset's time would poll some hundred times for each hop.
#[test]
fn an_agent_does_not_poll_for_an_answer_that_needs_its_cpu() {
    for preset in [Preset::Balanced, Preset::Latency] {
        let polls = polls_on_one_cpu(preset);
        assert!(polls < 40, "{polls} polls for each hop");
    }
}

/// Wakes a fiber of `runtime` from this thread, again and again, `gap` after it waits, until
/// `done`.
fn wake_until(runtime: &Runtime, gap: Duration, mut done: impl FnMut() -> bool) {
    let (turns, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counts, stops) = (turns.clone(), stop.clone());
    let fiber = runtime.spawn(move || {
        while !stops.load(Ordering::Relaxed) {
            counts.fetch_add(1, Ordering::Release);
            daiko::park();
        }
    });
    let mut turn = 0;
    until("the governor adapts", || {
        turn += 1;
        until("the fiber waits", || turns.load(Ordering::Acquire) >= turn || done());
        thread::sleep(gap);
        fiber.fiber().unpark();
        done()
    });
    stop.store(true, Ordering::Relaxed);
    fiber.fiber().unpark();
    fiber.join().unwrap();
}

#[test]
fn a_goal_that_a_sleep_reaches_ends_the_spinning() {
    let builder = Runtime::builder().workers(1).latency_target(Duration::from_millis(500));
    let runtime = builder.build().unwrap();
    let by = |reason| (runtime.polling().reason == reason).then(|| runtime.polling().spin);
    wake_until(&runtime, Duration::from_micros(100), || {
        by(SpinReason::SleepIsFast).is_some_and(|spin| spin == Some(Duration::ZERO))
    });
    end(runtime);
}

#[test]
fn a_budget_bounds_the_spinning_to_what_events_allow() {
    let runtime = Runtime::builder().workers(1).cpu_budget(0.02).build().unwrap();
    let polling = || runtime.polling();
    // At most 20 us of each millisecond, or the CPUs are scarce.
    wake_until(&runtime, Duration::from_millis(1), || match polling().reason {
        SpinReason::Cpu => polling().spin.is_some_and(|spin| spin < Duration::from_micros(50)),
        SpinReason::ScarceCpus => true,
        _ => false,
    });
    assert!(polling().sleep_cost > Duration::ZERO);
    end(runtime);
}

/// Events 20 ms apart: each spin of a preset is in vain. Then events at once: the spin is worth it.
#[test]
fn a_preset_stops_to_spin_in_vain_until_spins_are_worth_it_again() {
    let runtime = Runtime::builder().workers(1).preset(Preset::Balanced).build().unwrap();
    let is = |wanted: [SpinReason; 2]| wanted.contains(&runtime.polling().reason);
    wake_until(&runtime, Duration::from_millis(20), || {
        is([SpinReason::InVain, SpinReason::ScarceCpus])
    });
    wake_until(&runtime, Duration::ZERO, || is([SpinReason::Preset, SpinReason::ScarceCpus]));
    end(runtime);
}

#[test]
fn a_budget_that_is_no_number_of_cpus_is_refused() {
    for cpus in [-0.1, f64::NAN, f64::INFINITY] {
        let error = Runtime::builder().cpu_budget(cpus).build().unwrap_err().to_string();
        assert!(error.contains("ask for 0 or more"), "{error}");
    }
}
