//! Random work for as long as is asked for: no wake-up may be lost, no memory leaked, no value
//! wrong.
//!
//! It runs for `DAIKO_SOAK_SECONDS`; `DAIKO_SOAK_SEED=number` begins with the choices of that
//! round. Each round is a runtime of random shape. Each of its fibers knows the events that it
//! waits for, and their number, so a lost wake-up shows as a wait that never ends. Far beyond any
//! documented bound, a watchdog prints the counters and kills the process.

#[path = "soak/families.rs"]
mod families;
#[path = "soak/gates.rs"]
mod gates;
#[path = "soak/messages.rs"]
mod messages;
#[path = "soak/races.rs"]
mod races;
#[path = "soak/server.rs"]
mod server;
#[path = "soak/sockets.rs"]
mod sockets;
mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};
use std::{env, panic, process, thread};

use daiko::cancel::CancelToken;
use daiko::sync::{Condvar, Mutex, Semaphore};
use daiko::watch::{self, NotificationArea, at_least, changed_from};
use daiko::{Builder, JoinError, JoinHandle, Placement, Runtime, cancel, time};
use daiko_sys::memory::GuardKind;
use daiko_sys::selector::{self, SelectorKind};
use support::endless;
use support::{Drops, LOOK, OnDrop, PRESETS, migratable, until};

/// The minimum number of races between a cancel and the end of the wait that it would end.
const RACES: u64 = 1_000_000;
/// The number of looks of the watchdog after which a round is lost. A round has at most some ten
/// thousand waits, each within milliseconds. Looks are counted rather than time, as a machine may
/// stand still for a while.
const LOOKS: u32 = 600;
/// The time for all fibers to give in at the end of a round, standstills included.
const PATIENCE: Duration = Duration::from_secs(600);

#[test]
fn random_work_loses_nothing() {
    let Some(seconds) = seconds() else {
        return support::skip("the soak runs for DAIKO_SOAK_SECONDS");
    };
    let seed = seed();
    families::keep_quiet();
    println!("soak: {seconds} s with DAIKO_SOAK_SEED={seed}");
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut rounds, mut fibers, mut longest) = (0, 0, (Duration::ZERO, seed));
    while Instant::now() < end || races::count() < RACES {
        let (began, seed) = (Instant::now(), seed.wrapping_add(rounds));
        let work = if began < end { everything } else { races_alone };
        fibers += round(seed, work);
        longest = longest.max((began.elapsed(), seed));
        rounds += 1;
    }
    println!("soak: {rounds} rounds, {fibers} fibers; the longest round: {longest:?}");
    races::report();
}

/// Returns the time for which the soak was asked to run.
fn seconds() -> Option<u64> {
    env::var("DAIKO_SOAK_SECONDS").ok().and_then(|text| text.parse().ok())
}

/// Returns the seed that was asked for, or another one for each run.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    env::var("DAIKO_SOAK_SEED").map_or(now, |text| text.parse().unwrap())
}

/// xorshift64*: the choices of a round follow from its seed.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number of `0..n`.
    fn below(&mut self, n: usize) -> usize {
        (self.roll() >> 33) as usize % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The state that all fibers of a round share.
struct Round {
    workers: usize,
    drops: Drops,
    spawned: AtomicUsize,
    ended: AtomicUsize,
}

/// The work of a round in its runtime.
type Work = fn(&mut Dice, &Runtime, &Arc<Round>);

/// Runs one runtime through its life; returns the number of its fibers.
fn round(seed: u64, work: Work) -> usize {
    let mut dice = Dice::new(seed);
    let workers = 1 + dice.below(8);
    let runtime = Arc::new(build(&mut dice, workers));
    let (drops, spawned, ended) = Default::default();
    let round = Arc::new(Round { workers, drops, spawned, ended });
    let watchdog = Watchdog::start(&runtime, &round, seed);
    work(&mut dice, &runtime, &round);
    // Fibers that are not joined come to their end, too.
    let (spawned, ended) = (&round.spawned, &round.ended);
    until("the end of all fibers", || {
        ended.load(Ordering::Acquire) == spawned.load(Ordering::Relaxed)
    });
    let left = dice.below(2) * dice.below(100);
    leave(&mut dice, &runtime, &round, left);
    watchdog.end();
    let report =
        Arc::into_inner(runtime).expect("all other handles are gone").shutdown_timeout(PATIENCE);
    assert_eq!(report.leaked, 0, "seed {seed}");
    assert_eq!(report.unwound, left, "seed {seed}");
    assert_eq!(round.drops.dropped(), round.drops.made(), "seed {seed}");
    spawned.load(Ordering::Relaxed) + left
}

/// Threads begin work of all kinds, while presets change.
fn everything(dice: &mut Dice, runtime: &Runtime, round: &Arc<Round>) {
    let mut forks: Vec<Dice> = (0..2 + dice.below(4)).map(|_| Dice::new(dice.roll())).collect();
    let changes = forks.pop().filter(|_| dice.one_in(2));
    let going = AtomicBool::new(true);
    thread::scope(|threads| {
        let going = &going;
        changes.map(|dice| threads.spawn(move || change(dice, runtime, round.workers, going)));
        let roots = forks.into_iter().map(|dice| threads.spawn(move || root(dice, runtime, round)));
        let roots: Vec<_> = roots.collect();
        roots.into_iter().for_each(|root| root.join().unwrap());
        going.store(false, Ordering::Release);
    });
}

/// Runs only the races that a soak has to repeat often.
fn races_alone(dice: &mut Dice, runtime: &Runtime, round: &Arc<Round>) {
    let races = round.body(dice, |dice, round| (0..500).for_each(|_| races::some(dice, round)));
    runtime.spawn(races).join().unwrap();
}

fn build(dice: &mut Dice, workers: usize) -> Runtime {
    let builder = Runtime::builder().workers(workers).preset(PRESETS[dice.below(3)]);
    let builder = builder.any_agent(dice.one_in(4));
    let guards = dice.one_in(4).then_some(GuardKind::Protect);
    let builder = builder.fallbacks(guards, !dice.one_in(4));
    let kinds = [
        SelectorKind::Epoll,
        SelectorKind::Ring { deferred: false },
        SelectorKind::Ring { deferred: true },
    ];
    let kind = kinds[dice.below(3)];
    let builder = if selector::probe(kind).is_ok() { builder.selector_kind(kind) } else { builder };
    let builder = match dice.one_in(2) {
        true => builder.placement(Placement::Follow).steered(true),
        false => builder.bind(dice.one_in(2)),
    };
    builder.build().unwrap()
}

/// Changes presets while fibers run.
fn change(mut dice: Dice, runtime: &Runtime, workers: usize, going: &AtomicBool) {
    while going.load(Ordering::Acquire) {
        runtime.set_preset(PRESETS[dice.below(3)]);
        runtime.set_max_agents(dice.below(workers + 2));
        thread::sleep(Duration::from_micros(dice.roll() % 1000));
    }
}

/// Spawns, unparks and joins, on a thread that is no worker.
fn root(mut dice: Dice, runtime: &Runtime, round: &Arc<Round>) {
    for _ in 0..1 + dice.below(3) {
        let tasks: Vec<_> = (0..1 + dice.below(10))
            .map(|_| {
                let body = round.body(&mut dice, |dice, round| {
                    daiko::park();
                    task(dice, round, 2)
                });
                runtime.spawn_with(round.builder(&mut dice), body).unwrap()
            })
            .collect();
        tasks.iter().for_each(|task| task.fiber().unpark());
        tasks.into_iter().for_each(|task| assert_eq!(task.join().unwrap(), 2));
    }
}

/// Spawns fibers that wait for ever, and so have to be unwound.
fn leave(dice: &mut Dice, runtime: &Runtime, round: &Round, count: usize) {
    for i in 0..count {
        let token = round.drops.token();
        let body = move || {
            let (_token, word) = (token, AtomicU64::new(0));
            match i % 5 {
                0 => _ = watch::wait_until(&word, at_least(1)),
                1 => _ = watch::wait_until_notified(&word, at_least(1)),
                2 => _ = NotificationArea::<u64>::new(1).1[0].wait(),
                3 => loop {
                    daiko::park();
                },
                _ => loop {
                    daiko::yield_now();
                },
            }
        };
        drop(runtime.spawn_with(round.builder(dice), body).unwrap());
    }
}

/// Aborts with the counters if a round does not end.
struct Watchdog {
    end: mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Watchdog {
    fn start(runtime: &Arc<Runtime>, round: &Arc<Round>, seed: u64) -> Self {
        let (end, ended) = mpsc::channel();
        let (runtime, round) = (runtime.clone(), round.clone());
        let thread = thread::spawn(move || {
            for _ in 0..LOOKS {
                if ended.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
            let (spawned, ended) = (&round.spawned, &round.ended);
            eprintln!("soak: something is lost in round {seed}: {ended:?} of {spawned:?} ended");
            for (worker, counters) in runtime.counters().iter().enumerate() {
                eprintln!("worker {worker}: {counters:?}");
            }
            process::abort();
        });
        Watchdog { end, thread }
    }

    fn end(self) {
        drop(self.end);
        self.thread.join().unwrap();
    }
}

impl Round {
    fn builder(&self, dice: &mut Dice) -> Builder {
        let builder = if dice.one_in(3) { migratable() } else { Builder::new() };
        let builder = if dice.one_in(8) { builder.stack_size(256 << 10) } else { builder };
        if dice.one_in(4) { builder.on(dice.below(self.workers)) } else { builder }
    }

    /// Returns a closure that is counted as it ends, also by a panic, or before its start.
    fn body<T>(
        self: &Arc<Self>,
        dice: &mut Dice,
        f: impl FnOnce(&mut Dice, &Arc<Round>) -> T + Send + 'static,
    ) -> impl FnOnce() -> T + Send + 'static {
        self.spawned.fetch_add(1, Ordering::Relaxed);
        let (token, mut dice, round) = (self.drops.token(), Dice::new(dice.roll()), self.clone());
        let counted = self.clone();
        let ended = OnDrop(move || _ = counted.ended.fetch_add(1, Ordering::Release));
        move || {
            let (_ended, _token) = (ended, token);
            f(&mut dice, &round)
        }
    }

    fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        dice: &mut Dice,
        f: impl FnOnce(&mut Dice, &Arc<Round>) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let body = self.body(dice, f);
        self.builder(dice).spawn(body).unwrap()
    }
}

/// Does random work together with other fibers; returns `depth`.
fn task(dice: &mut Dice, round: &Arc<Round>, depth: usize) -> usize {
    for _ in 0..dice.below(10) {
        match dice.below(26) {
            0 => (0..dice.below(10)).for_each(|_| daiko::yield_now()),
            1 => ping_pong(dice, round),
            2 => watch_words(dice, round),
            3 => watch_slots(dice, round),
            4 if depth > 0 => subtasks(dice, round, depth - 1),
            5 => block(dice),
            6 => panics(dice, round),
            7 => drop(round.spawn(dice, |_, _| daiko::yield_now())),
            8 => {
                daiko::current().unpark();
                daiko::park();
            }
            9 => time::sleep(Duration::from_nanos(dice.roll() % 200_000)),
            10 => cancels(dice, round),
            11 => locks(dice, round),
            12 => permits(dice, round),
            13 => timeouts(dice, round),
            14 => tokens(dice, round),
            15 | 16 => messages::exchange(dice, round),
            17 => gates::readers_and_writers(dice, round),
            18 => gates::events(dice, round),
            19 => gates::barriers(dice, round),
            20 => gates::once(dice, round),
            21 => families::scopes(dice, round),
            22 => races::some(dice, round),
            23 => sockets::streams(dice, round),
            24 => sockets::acceptors(dice, round),
            _ => many_wakers(dice, round),
        }
    }
    depth
}

/// A lap that a cancel, if it comes, ends where the fiber waits.
type Lap<T> = fn(&mut Dice, &T);

/// Spawns fibers that do laps with `shared`, and cancels some; returns how many were not cancelled.
fn laps<T: Send + Sync + 'static>(
    dice: &mut Dice,
    round: &Arc<Round>,
    shared: &Arc<T>,
    lap: Lap<T>,
) -> usize {
    let fibers: Vec<_> = (0..1 + dice.below(6))
        .map(|_| {
            let shared = shared.clone();
            round.spawn(dice, move |dice, _| (0..20).for_each(|_| lap(dice, &shared)))
        })
        .collect();
    if dice.one_in(2) {
        daiko::yield_now();
    }
    fibers.iter().for_each(|fiber| {
        if dice.one_in(3) {
            fiber.cancel()
        }
    });
    fibers.into_iter().map(came_to_its_end).filter(|&ended| ended).count()
}

/// Whether a fiber that may have been cancelled came to its end before the cancel, or without one.
fn came_to_its_end(fiber: JoinHandle<()>) -> bool {
    match fiber.join() {
        Ok(()) => true,
        Err(JoinError::Cancelled) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Tests a lock that is held over suspensions, and waited for with and without a deadline.
fn locks(dice: &mut Dice, round: &Arc<Round>) {
    let shared = Arc::new((Mutex::new([0u64; 2]), Condvar::new()));
    let lap: Lap<(Mutex<[u64; 2]>, Condvar)> = |dice, (mutex, condvar)| {
        let guard = match dice.below(3) {
            0 => mutex.lock_timeout(Duration::from_nanos(dice.roll() % 100_000)).ok(),
            _ => Some(mutex.lock().unwrap()),
        };
        let Some(mut guard) = guard else { return };
        guard[0] += 1;
        if dice.one_in(4) {
            // A cancel waits, so that both numbers are changed.
            cancel::shield(daiko::yield_now);
        }
        guard[1] += 1;
        assert_eq!(guard[0], guard[1]);
        match dice.below(4) {
            0 => condvar.notify_one(),
            1 => condvar.notify_all(),
            2 => {
                let time = Duration::from_nanos(dice.roll() % 100_000);
                drop(condvar.wait_timeout(guard, time).unwrap());
            }
            _ => {}
        }
    };
    let _ = laps(dice, round, &shared, lap);
    let counts = shared.0.lock().unwrap();
    assert_eq!(counts[0], counts[1]);
}

/// Checks that at most so many permits are taken at a time, and that none is lost.
fn permits(dice: &mut Dice, round: &Arc<Round>) {
    let all = 1 + dice.below(4) as u32;
    let shared = Arc::new((Semaphore::new(all), all));
    let lap: Lap<(Semaphore, u32)> = |dice, (semaphore, all)| {
        let count = 1 + dice.below(*all as usize) as u32;
        let permit = match dice.below(3) {
            0 => semaphore.acquire_timeout(count, Duration::from_nanos(dice.roll() % 100_000)).ok(),
            _ => Some(semaphore.acquire_many(count)),
        };
        if permit.is_some() && dice.one_in(2) {
            daiko::yield_now();
        }
    };
    let _ = laps(dice, round, &shared, lap);
    assert_eq!(shared.0.available_permits(), all);
}

/// Cancels fibers that would never end.
fn cancels(dice: &mut Dice, round: &Arc<Round>) {
    let lap: Lap<()> = |dice, ()| match dice.below(4) {
        0 => daiko::yield_now(),
        1 => time::sleep(Duration::from_nanos(dice.roll() % 100_000)),
        2 => daiko::blocking(|| ()),
        _ => cancel::shield(|| time::sleep(Duration::from_nanos(dice.roll() % 1000))),
    };
    let _ = laps(dice, round, &Arc::new(()), lap);
    let (word, other) = (AtomicU64::new(0), round.spawn(dice, |_, _| daiko::park()));
    let (kind, parked) = (dice.below(4), other.fiber().clone());
    let endless = round.spawn(dice, move |_, _| match kind {
        0 => daiko::time::sleep(Duration::MAX),
        1 => _ = watch::wait_until(&word, at_least(1)),
        2 => _ = other.join(),
        _ => loop {
            daiko::yield_now();
        },
    });
    endless.cancel();
    assert!(matches!(endless.join(), Err(JoinError::Cancelled)));
    parked.unpark();
}

/// Runs work that ends by itself, by its timeout, or by the timeout around that.
fn timeouts(dice: &mut Dice, round: &Arc<Round>) {
    for _ in 0..1 + dice.below(20) {
        let mut some = || Duration::from_nanos(dice.roll() % 20_000);
        let (outer, inner, sleep, token) = (some(), some(), some(), round.drops.token());
        let kind = dice.below(2 * endless::KINDS);
        let result = time::timeout(outer, move || {
            let result = time::timeout(inner, move || {
                if kind < endless::KINDS {
                    endless::wait(kind)
                } else {
                    time::sleep(sleep)
                }
                token
            });
            daiko::yield_now();
            result
        });
        assert!(kind >= endless::KINDS || !matches!(result, Ok(Ok(_))), "{kind}");
    }
}

/// Runs work that ends by itself or by a token. Tokens have generations.
fn tokens(dice: &mut Dice, round: &Arc<Round>) {
    let parent = CancelToken::new();
    let lap: Lap<CancelToken> = |dice, parent| {
        let token = if dice.one_in(2) { parent.child() } else { parent.clone() };
        match dice.below(4) {
            0 => _ = token.wait_timeout(Duration::from_nanos(dice.roll() % 20_000)),
            1 => _ = token.run(|| time::sleep(Duration::from_nanos(dice.roll() % 20_000))),
            2 if token.run(|| dice.one_in(8)).unwrap_or(false) => token.cancel(),
            _ => _ = token.run(daiko::yield_now),
        }
    };
    let fibers: Vec<_> = (0..dice.below(4))
        .map(|_| {
            let (token, kind, held) =
                (parent.child(), dice.below(endless::KINDS), round.drops.token());
            let body = move || {
                let _held = held;
                endless::wait(kind);
            };
            round.spawn(dice, move |_, _| assert!(token.run(body).is_err()))
        })
        .collect();
    let _ = laps(dice, round, &Arc::new(parent.child()), lap);
    parent.cancel();
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

/// Lets two fibers take turns, each unparked by the other.
fn ping_pong(dice: &mut Dice, round: &Arc<Round>) {
    let (laps, turn) = (1 + dice.below(50) as u64, Arc::new(AtomicU64::new(0)));
    let (other, starter) = (turn.clone(), daiko::current());
    let wait_for = |turn: &AtomicU64, value| {
        while turn.load(Ordering::Acquire) != value {
            daiko::park();
        }
    };
    let pong = round.spawn(dice, move |_, _| {
        for lap in 0..laps {
            wait_for(&other, 2 * lap + 1);
            other.store(2 * lap + 2, Ordering::Release);
            starter.unpark();
        }
    });
    for lap in 0..laps {
        turn.store(2 * lap + 1, Ordering::Release);
        pong.fiber().unpark();
        wait_for(&turn, 2 * lap + 2);
    }
    pong.join().unwrap();
}

/// Lets a writer count up. Readers follow, by polled or notified watches, and see no value go back.
fn watch_words(dice: &mut Dice, round: &Arc<Round>) {
    let (last, word) = (1 + dice.below(30) as u64, Arc::new(AtomicU64::new(0)));
    let (told, off_fiber) = (dice.one_in(2), dice.one_in(3));
    let readers: Vec<_> = (0..1 + dice.below(4))
        .map(|_| {
            let word = word.clone();
            round.spawn(dice, move |dice, _| {
                let wait: fn(&AtomicU64, _) -> _ =
                    if told { watch::wait_until_notified } else { watch::wait_until };
                let mut seen = 0;
                while seen < last {
                    let until = match dice.below(3) {
                        0 => at_least(seen + 1),
                        1 => changed_from(seen),
                        _ => at_least(last),
                    };
                    let value = wait(&word, until);
                    assert!(value > seen && value <= last, "{value} after {seen}");
                    seen = value;
                }
            })
        })
        .collect();
    for value in 1..=last {
        if off_fiber && !told {
            daiko::blocking(|| word.store(value, Ordering::Release));
        } else {
            word.store(value, Ordering::Release);
        }
        if told {
            watch::notify(&*word);
        }
        if dice.one_in(3) {
            daiko::yield_now();
        }
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

/// Gives each slot its values one by one, acknowledged by an unpark. Some areas end early.
fn watch_slots(dice: &mut Dice, round: &Arc<Round>) {
    let (len, laps) = (1 + dice.below(20), 1 + dice.below(5) as u64);
    let make = if dice.one_in(2) { NotificationArea::notified } else { NotificationArea::new };
    let (area, slots) = make(len);
    let (taken, writer) = (Arc::new(AtomicUsize::new(0)), daiko::current());
    let takers: Vec<_> = slots
        .into_iter()
        .map(|mut slot| {
            let (taken, writer) = (taken.clone(), writer.clone());
            round.spawn(dice, move |_, _| {
                for lap in 1..=laps {
                    assert_eq!(slot.wait(), Ok(lap));
                    taken.fetch_add(1, Ordering::AcqRel);
                    writer.unpark();
                }
                assert_eq!(slot.wait(), Err(watch::Closed));
            })
        })
        .collect();
    for lap in 1..=laps {
        (0..len).for_each(|index| area.notify_with(index, lap));
        while taken.load(Ordering::Acquire) < len * lap as usize {
            daiko::park();
        }
    }
    drop(area);
    takers.into_iter().for_each(|taker| taker.join().unwrap());
}

fn subtasks(dice: &mut Dice, round: &Arc<Round>, depth: usize) {
    let children: Vec<_> = (0..1 + dice.below(6))
        .map(|_| round.spawn(dice, move |dice, round| task(dice, round, depth)))
        .collect();
    for child in children {
        assert_eq!(child.join().unwrap(), depth);
    }
}

fn block(dice: &mut Dice) {
    let (fiber, value) = (daiko::current(), dice.roll());
    assert_eq!(daiko::blocking(|| value ^ 1), value ^ 1);
    // A thread that is no worker unparks the fiber.
    daiko::blocking(|| fiber.unpark());
    daiko::park();
}

fn panics(dice: &mut Dice, round: &Arc<Round>) {
    let value = dice.roll();
    let child: JoinHandle<()> = round.spawn(dice, move |dice, _| {
        if dice.one_in(2) {
            daiko::yield_now();
        }
        panic::resume_unwind(Box::new(value));
    });
    let payload = child.join().unwrap_err().into_panic().unwrap();
    assert_eq!(*payload.downcast::<u64>().unwrap(), value);
}

/// Unparks one fiber many times: the last unpark must not be lost.
fn many_wakers(dice: &mut Dice, round: &Arc<Round>) {
    let (count, fiber) = (Arc::new(AtomicUsize::new(0)), daiko::current());
    let all = 1 + dice.below(20);
    for _ in 0..all {
        let (count, fiber) = (count.clone(), fiber.clone());
        drop(round.spawn(dice, move |_, _| {
            count.fetch_add(1, Ordering::AcqRel);
            fiber.unpark();
        }));
    }
    while count.load(Ordering::Acquire) < all {
        daiko::park();
    }
}
