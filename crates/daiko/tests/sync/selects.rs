//! Selects among operations of several kinds: ends of fibers, events, tokens, times, channels.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::support::waits::{
    LONG, SHORT, everywhere_numbered, let_others_run, on_one_worker, waiting,
};
use crate::support::{Drops, end, migratable, panic_of, until, workers, yield_until};
use daiko::cancel::CancelToken;
use daiko::sync::Event;
use daiko::sync::channel::{self, Receiver, Sender};
use daiko::time::interval;
use daiko::watch::{self, at_least};
use daiko::{Builder, JoinError, JoinHandle, select};

#[test]
fn a_select_joins_the_first_fiber_to_end() {
    everywhere_numbered(1, |_| {
        let (go, goes) = channel::oneshot();
        let mut first = daiko::spawn(move || goes.recv().unwrap());
        let mut never = daiko::spawn(daiko::park);
        go.send(7).unwrap();
        select! {
            join(first) -> result => assert_eq!(result.unwrap(), 7),
            join(never) -> _ => panic!("it parks"),
        }
        assert!(first.is_finished() && matches!(first.join(), Err(JoinError::Taken)));
        let never = &mut never;
        never.cancel();
        select! {
            join(never) -> result => assert!(matches!(result, Err(JoinError::Cancelled))),
        }
        select! {
            join(never) -> result => assert!(matches!(result, Err(JoinError::Taken))),
        }
    });
}

#[test]
fn a_join_that_was_not_chosen_can_be_made_later() {
    on_one_worker(|| {
        let drops = Drops::default();
        let result = drops.token();
        let mut fiber = waiting(move || {
            daiko::park();
            result
        });
        select! {
            join(fiber) -> _ => panic!("it parks"),
            default(SHORT) => {}
        }
        select! {
            join(fiber) -> _ => panic!("it parks"),
            default => fiber.fiber().unpark(),
        }
        drop(fiber.join().unwrap());
        drops.assert_all();
    });
}

#[test]
fn a_taken_result_is_dropped_once_and_a_scoped_fiber_can_be_joined() {
    on_one_worker(|| {
        let drops = Drops::default();
        daiko::scope(|s| {
            let mut scoped = s.spawn(|| drops.token());
            select! {
                join(scoped) -> result => drop(result.unwrap()),
            }
            drop(scoped);
            let mut panics = s.spawn(|| std::panic::resume_unwind(Box::new(1)));
            let result: Result<(), _> = select! { join(panics) -> result => result };
            assert!(result.unwrap_err().into_panic().is_ok(), "and the scope forgives it");
        });
        drops.assert_all();
    });
}

#[test]
fn a_fiber_that_selects_its_own_end_is_told() {
    on_one_worker(|| {
        let (give, given) = channel::oneshot::<JoinHandle<()>>();
        let (tell, told) = channel::oneshot();
        let selects = daiko::spawn(move || {
            let mut own: JoinHandle<()> = given.recv().unwrap();
            select! {
                join(own) -> result => tell.send(matches!(result, Err(JoinError::Itself))).unwrap(),
            }
        });
        give.send(selects).unwrap();
        assert_eq!(told.recv(), Ok(true));
    });
}

#[test]
fn the_next_of_several_times_is_taken() {
    everywhere_numbered(1, |_| {
        let event = Event::manual();
        let which = select! {
            sleep(LONG) => 0,
            sleep(Instant::now() + SHORT) => 1,
            wait(event) => 2,
            default(LONG) => 3,
        };
        assert_eq!(which, 1);
    });
}

#[test]
fn a_tick_that_was_not_taken_stays_due() {
    on_one_worker(|| {
        let (mut beat, event) = (interval(LONG), Event::auto());
        let mut taken = [0; 2];
        while taken[1] == 0 {
            event.set();
            select! {
                wait(event) => taken[0] += 1,
                tick(beat) -> missed => { assert_eq!(missed, 0); taken[1] += 1; }
            }
        }
        let ticks = select! {
            tick(beat) -> _ => true,
            default(SHORT) => false,
        };
        assert!(!ticks, "the next tick is due in an hour");
    });
}

#[test]
fn a_select_that_would_wait_inside_no_suspend_panics() {
    on_one_worker(|| {
        let event = Event::manual();
        let message = panic_of(|| daiko::no_suspend(|| select! { wait(event) => {} }));
        assert!(message.contains("no_suspend"), "{message}");
        event.set();
        daiko::no_suspend(|| select! { wait(event) => {} });
    });
}

#[test]
fn of_operations_of_all_kinds_that_are_possible_each_is_taken_as_often() {
    const ROUNDS: u64 = 7000;
    on_one_worker(|| {
        let (event, token) = (Event::manual(), CancelToken::new());
        let ((sender, receiver), (room, _rooms)) = (channel::unbounded(), channel::unbounded());
        let (mut ended, mut taken) = (daiko::spawn(|| ()), [0u64; 7]);
        event.set();
        token.cancel();
        for _ in 0..ROUNDS {
            let mut beat = interval(LONG);
            if ended.is_finished() {
                ended = daiko::spawn(|| ());
            }
            sender.send(()).unwrap();
            yield_until("the end", || ended.is_finished());
            let which = select! {
                recv(receiver) -> _ => 0,
                send(room, ()) -> _ => 1,
                join(ended) -> _ => 2,
                wait(event) => 3,
                wait(token) => 4,
                sleep(SHORT) => 5,
                tick(beat) -> _ => 6,
            };
            taken[which] += 1;
        }
        // Ten standard deviations of a binomial distribution, which are 293.
        let off = |count: u64| count.abs_diff(ROUNDS / 7);
        assert!(taken.iter().all(|&count| off(count) < 293), "{taken:?}");
    });
}

/// Three locks and the counts that they guard: two automatic events, and the one message of a
/// channel.
struct Locks {
    events: [Event; 2],
    message: (Sender<()>, Receiver<()>),
    guarded: [UnsafeCell<u64>; 3],
    entered: AtomicU64,
}

// SAFETY: each count is accessed by the holder of its lock.
unsafe impl Sync for Locks {}

impl Locks {
    fn new() -> Arc<Self> {
        let locks = Locks {
            events: [Event::auto(), Event::auto()],
            message: channel::bounded(1),
            guarded: [const { UnsafeCell::new(0) }; 3],
            entered: AtomicU64::new(0),
        };
        locks.events.iter().for_each(Event::set);
        locks.message.0.send(()).unwrap();
        Arc::new(locks)
    }

    /// Takes one of the locks, perhaps after some timeouts; counts, and frees it.
    fn enter(&self, number: usize) {
        let [one, other] = &self.events;
        let receiver = &self.message.1;
        let which = loop {
            let patience = if number.is_multiple_of(2) { LONG } else { SHORT };
            let which = select! {
                wait(one) => Some(0),
                wait(other) => Some(1),
                recv(receiver) -> _ => Some(2),
                default(patience) => None,
            };
            match which {
                Some(which) => break which,
                None => let_others_run(),
            }
        };
        // SAFETY: the lock is held.
        unsafe { *self.guarded[which].get() += 1 };
        self.entered.fetch_add(1, Ordering::Relaxed);
        match which {
            2 => self.message.0.send(()).unwrap(),
            event => self.events[event].set(),
        }
    }
}

#[test]
fn selects_of_automatic_events_and_a_channel_lose_no_set_and_share_none() {
    const EACH: usize = 300;
    for _ in 0..2 {
        let locks = Locks::new();
        let theirs = locks.clone();
        everywhere_numbered(2, move |number| {
            (0..EACH).for_each(|round| theirs.enter(number + round));
        });
        // SAFETY: all users have ended.
        let counted: u64 = locks.guarded.iter().map(|count| unsafe { *count.get() }).sum();
        assert_eq!(counted, locks.entered.load(Ordering::Relaxed));
        assert_eq!(counted, 4 * 6 * EACH as u64);
        assert!(locks.events.iter().all(Event::is_set) && locks.message.1.len() == 1);
    }
}

#[test]
fn a_cancelled_select_takes_no_set_along() {
    let runtime = workers(2);
    for _ in 0..2000 {
        let events = Arc::new([Event::auto(), Event::auto()]);
        let theirs = events.clone();
        let selects = runtime.spawn(move || {
            select! {
                wait(theirs[0]) => 0,
                wait(theirs[1]) => 1,
            }
        });
        let theirs = events.clone();
        let sets = runtime.spawn(move || theirs.iter().for_each(Event::set));
        selects.cancel();
        sets.join().unwrap();
        match selects.join() {
            Ok(taken) => assert_eq!(events.each_ref().map(Event::is_set), [taken == 1, taken == 0]),
            Err(error) => {
                assert!(matches!(error, JoinError::Cancelled));
                assert!(events.iter().all(Event::is_set));
            }
        }
    }
    end(runtime);
}

/// The objects that several selects wait for.
struct Ends {
    events: [Event; 3],
    token: CancelToken,
    woken: AtomicUsize,
    all: Event,
}

impl Ends {
    fn wait(&self) {
        let [one, two, three] = &self.events;
        select! {
            wait(one) => {}
            wait(two) => {}
            wait(three) => {}
            wait(self.token) => {}
        }
        self.woken.fetch_add(1, Ordering::Relaxed);
        // A wake too many would end this wait without a claim, which panics.
        self.all.wait();
    }
}

#[test]
fn a_select_of_many_objects_that_end_at_once_is_woken_once() {
    let runtime = workers(2);
    for round in 0..500 {
        let ends = Arc::new(Ends {
            events: [(); 3].map(|()| Event::manual()),
            token: CancelToken::new(),
            woken: AtomicUsize::new(0),
            all: Event::manual(),
        });
        let waits = || {
            let ends = ends.clone();
            move || ends.wait()
        };
        let builders = [Builder::new(), migratable(), Builder::new().on(1), migratable()];
        let fibers = builders.map(|builder| runtime.spawn_with(builder, waits()).unwrap());
        let thread = thread::spawn(waits());
        (0..round % 7).for_each(|_| thread::yield_now());
        let theirs = ends.clone();
        let sets = runtime.spawn(move || theirs.events[1..].iter().for_each(Event::set));
        ends.token.cancel();
        ends.events[0].set();
        sets.join().unwrap();
        until("all", || ends.woken.load(Ordering::Relaxed) == 5);
        ends.all.set();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        thread.join().unwrap();
    }
    end(runtime);
}

#[test]
fn ends_of_fibers_race_with_events_and_timeouts() {
    everywhere_numbered(1, |number| {
        let drops = Drops::default();
        for round in 0..200 {
            let event = Arc::new(Event::auto());
            let (sets, results) = (event.clone(), [(); 3].map(|()| drops.token()));
            let mut fibers = results.map(|result| {
                daiko::spawn(move || {
                    (0..(number + round) % 4).for_each(|_| daiko::yield_now());
                    result
                })
            });
            let setter = daiko::spawn(move || {
                (0..round % 3).for_each(|_| daiko::yield_now());
                sets.set();
            });
            let (mut joined, mut was_set) = ([false; 3], false);
            let patience = if round % 2 == 0 { LONG } else { SHORT };
            while !was_set || joined.contains(&false) {
                let [one, two, three] = &mut fibers;
                select! {
                    join(one) -> result => { joined[0] |= result.is_ok(); }
                    join(two) -> result => { joined[1] |= result.is_ok(); }
                    wait(event) => was_set = true,
                    join(three) -> result => { joined[2] |= result.is_ok(); }
                    default(patience) => {}
                }
                let_others_run();
            }
            setter.join().unwrap();
            assert!(!event.is_set());
        }
        drops.assert_all();
    });
}

#[test]
fn a_word_that_changes_is_seen_among_other_operations() {
    on_one_worker(|| {
        for notified in [false, true] {
            let (word, event) = (Arc::new(AtomicU64::new(0)), Event::manual());
            let theirs = word.clone();
            let waits = waiting(move || {
                let event = Event::manual();
                select! {
                    wait(event) => panic!("it is not set"),
                    wait_until(&*theirs, at_least(3)) -> value => (0, value),
                    wait_until_notified(&*theirs, at_least(2)) -> value => (1, value),
                }
            });
            word.store(if notified { 2 } else { 3 }, Ordering::Release);
            if notified {
                assert_eq!(watch::notify(&*word), 1);
            }
            assert_eq!(waits.join().unwrap(), if notified { (1, 2) } else { (0, 3) });
            event.set();
            let which = select! {
                wait(event) => 0,
                wait_until(&*word, at_least(9)) -> _ => 1,
            };
            assert_eq!((which, watch::notify(&*word)), (0, 0), "no watch is left");
        }
    });
}

#[test]
fn a_thread_that_selects_a_word_panics() {
    let word = AtomicU64::new(0);
    let message = panic_of(|| select! { wait_until(&word, at_least(1)) -> _ => {} });
    assert!(message.contains("for fibers"), "{message}");
    word.store(1, Ordering::Release);
    let seen = select! { wait_until(&word, at_least(1)) -> value => value };
    assert_eq!(seen, 1, "without a wait");
}

#[test]
fn words_race_with_events() {
    let runtime = workers(2);
    for round in 0..1000 {
        let shared = Arc::new(([(); 2].map(|()| AtomicU64::new(0)), Event::auto()));
        let theirs = shared.clone();
        let selects = move || {
            let ([polled, notified], event) = &*theirs;
            let mut seen = [false; 3];
            while seen.contains(&false) {
                let [first, second] = [seen[0], seen[1]].map(|seen| u64::from(seen) * 8 + 1);
                select! {
                    wait_until(polled, at_least(first)) -> _ => seen[0] = true,
                    wait_until_notified(notified, at_least(second)) -> _ => seen[1] = true,
                    wait(event) => seen[2] = true,
                }
            }
        };
        let builder = if round % 2 == 0 { Builder::new() } else { migratable() };
        let selects = runtime.spawn_with(builder, selects).unwrap();
        let theirs = shared.clone();
        let notifies = runtime.spawn(move || {
            theirs.0[1].store(1, Ordering::Release);
            watch::notify(&theirs.0[1]);
            theirs.1.set();
        });
        (0..round % 5).for_each(|_| thread::yield_now());
        shared.0[0].store(1, Ordering::Release);
        notifies.join().unwrap();
        selects.join().unwrap();
    }
    end(runtime);
}
