//! Waits for words: polled and notified, alone and in areas, hit, cancelled and closed.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8,
    AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::time::{Duration, Instant};

use daiko::sync::TimedOut;
use daiko::watch::{
    self, Closed, NotificationArea, SlotTimeoutError, WatchBuilder, Watched, any_bit, at_least,
    changed_from, equal,
};
use daiko::{Builder, JoinError, Preset, Runtime};

const PRESETS: [Preset; 3] = [Preset::Latency, Preset::Balanced, Preset::Power];

/// Runs `f` on one and two workers under every preset.
fn everywhere(f: impl Fn() + Send + Clone + 'static) {
    for workers in 1..=2 {
        for preset in PRESETS {
            let runtime = Runtime::builder().workers(workers).preset(preset).build().unwrap();
            runtime.run(f.clone());
            let report = runtime.shutdown();
            assert_eq!((report.unwound, report.leaked), (0, 0));
        }
    }
}

#[test]
fn every_condition_ends_by_a_plain_store() {
    everywhere(|| {
        let word = Arc::new(AtomicU64::new(1));
        let small = Arc::new(AtomicU32::new(0));
        let conditions = [changed_from(1), equal(12), at_least(9), any_bit(4)];
        let waiters: Vec<_> = conditions
            .into_iter()
            .map(|until| {
                let word = word.clone();
                daiko::spawn(move || watch::wait_until(&*word, until))
            })
            .collect();
        let other = small.clone();
        let waiter = daiko::spawn(move || watch::wait_until(&*other, at_least(3)));
        daiko::yield_now();
        let writer = std::thread::spawn(move || {
            small.store(3, Ordering::Release);
            word.store(12, Ordering::Release);
        });
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), 12);
        }
        assert_eq!(waiter.join().unwrap(), 3);
        writer.join().unwrap();
    });
}

/// An agent that slept before it looked at some of the words would find a change after many sleeps.
#[test]
fn after_a_sleep_all_words_are_looked_at() {
    const WORDS: usize = 5_000;
    const CHANGES: usize = 50;
    // Under this preset agents do not spin.
    let runtime = Runtime::builder().workers(1).preset(Preset::Power).build().unwrap();
    let words: Arc<Vec<AtomicU64>> = Arc::new((0..WORDS).map(|_| AtomicU64::new(0)).collect());
    let parks = || runtime.counters()[0].parks;
    let before = parks();
    runtime.run(move || {
        daiko::scope(|s| {
            let waits = |word| {
                // By name, so that no spare takes the fiber, and looks on its part.
                let builder = Builder::new().on(0);
                builder.spawn_scoped(s, move || watch::wait_until(word, at_least(1))).unwrap()
            };
            let waiters: Vec<_> = words.iter().map(waits).collect();
            daiko::yield_now();
            for (waiter, word) in waiters.into_iter().zip(&*words).step_by(WORDS / CHANGES) {
                word.store(1, Ordering::Release);
                assert_eq!(waiter.join().unwrap(), 1);
            }
            words.iter().for_each(|word| word.store(1, Ordering::Release));
        });
    });
    let parks = parks() - before;
    assert!(parks <= 3 * CHANGES as u64, "{parks} parks");
    drop(runtime);
}

#[test]
fn a_told_watch_ends_by_the_notification() {
    everywhere(|| {
        let word = Arc::new(AtomicU64::new(0));
        for lap in 1..=100 {
            let watched = word.clone();
            let waiter = daiko::spawn(move || watch::wait_until_notified(&*watched, at_least(lap)));
            if lap % 2 == 0 {
                daiko::yield_now();
            }
            word.store(lap, Ordering::Release);
            watch::notify(&*word);
            assert_eq!(waiter.join().unwrap(), lap);
        }
    });
}

#[test]
fn one_notification_ends_all_told_watches_of_its_word_and_none_of_another() {
    for count in 1..=2 {
        for preset in PRESETS {
            let runtime = Runtime::builder().workers(count).preset(preset).build().unwrap();
            let words: Arc<[AtomicU64; 2]> = Arc::default();
            let on = |worker, body: Box<dyn FnOnce() -> u64 + Send>| {
                runtime.spawn_with(Builder::new().on(worker), body).unwrap()
            };
            let watches = |worker, word: usize| {
                let words = words.clone();
                on(worker, Box::new(move || watch::wait_until_notified(&words[word], at_least(1))))
            };
            let waiters = [0, 0, 1].map(|worker| watches(worker % count, 0));
            let other = watches(0, 1);
            // A fiber starts on its worker once the fibers before it have suspended.
            (0..count).for_each(|worker| _ = on(worker, Box::new(|| 0)).join().unwrap());
            words[0].store(1, Ordering::Release);
            assert_eq!(watch::notify_in(&runtime, &words[0]), 3);
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), 1);
            }
            assert!(!other.is_finished());
            words[1].store(2, Ordering::Release);
            assert_eq!(watch::notify_in(&runtime, &words[1]), 1);
            assert_eq!(other.join().unwrap(), 2);
            let report = runtime.shutdown();
            assert_eq!((report.unwound, report.leaked), (0, 0));
        }
    }
}

#[test]
fn a_ring_of_slots_turns() {
    for notified in [false, true] {
        everywhere(move || ring_of_slots(notified));
    }
}

fn ring_of_slots(notified: bool) {
    const N: usize = 70;
    let (area, slots) =
        if notified { NotificationArea::<u64>::notified(N) } else { NotificationArea::new(N) };
    let fibers: Vec<_> = slots
        .into_iter()
        .map(|mut slot| {
            let area = area.clone();
            daiko::spawn(move || {
                for lap in 1..=20 {
                    assert_eq!(slot.wait(), Ok(lap));
                    let next = (slot.index() + 1) % N;
                    let sent = if next == 0 { lap + 1 } else { lap };
                    if sent <= 20 {
                        area.notify_with(next, sent);
                    }
                }
            })
        })
        .collect();
    area.notify_with(0, 1);
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
}

#[test]
fn waiters_of_a_dropped_area_are_told() {
    everywhere(|| {
        let (area, slots) = NotificationArea::<u32>::new(10);
        let fibers: Vec<_> =
            slots.into_iter().map(|mut slot| daiko::spawn(move || slot.wait())).collect();
        daiko::yield_now();
        let other = area.clone();
        area.notify(7);
        drop(area);
        drop(other);
        for (index, fiber) in fibers.into_iter().enumerate() {
            let expected = if index == 7 { Ok(1) } else { Err(Closed) };
            assert_eq!(fiber.join().unwrap(), expected);
        }
    });
}

#[test]
fn fibers_that_watch_are_unwound_and_leave_no_entry() {
    for workers in 1..=2 {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let (area, word) = runtime.run(|| {
            let (area, slots) = NotificationArea::<u64>::new(4);
            let word = Arc::new(AtomicU64::new(0));
            for mut slot in slots {
                drop(daiko::spawn(move || slot.wait()));
            }
            (area, word)
        });
        let watched = word.clone();
        let waiter = runtime.spawn(move || watch::wait_until(&*watched, equal(1)));
        let notified = word.clone();
        let other = runtime.spawn(move || watch::wait_until_notified(&*notified, equal(1)));
        runtime.run(daiko::yield_now);
        let report = runtime.shutdown();
        assert_eq!(report.leaked, 0);
        assert!(matches!(waiter.join(), Err(JoinError::Cancelled)));
        assert!(matches!(other.join(), Err(JoinError::Cancelled)));
        // The fibers' frames, with all entries, are gone: no fiber reads the word any more.
        assert_eq!(Arc::strong_count(&word), 1);
        area.notify(0);
    }
}

#[test]
fn an_area_may_outlive_its_runtime() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let (area, slots) = runtime.run(|| NotificationArea::<u64>::notified(3));
    runtime.shutdown();
    area.notify(1);
    drop(area);
    drop(slots);
}

#[test]
fn a_watch_is_sampled_while_its_worker_is_busy() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let word = Arc::new(AtomicU64::new(0));
    let watched = word.clone();
    // SAFETY: the fiber keeps nothing in thread-local storage.
    let migratable = daiko::Builder::new().on(0).migratable();
    let waiter =
        runtime.spawn_with(migratable, move || watch::wait_until(&*watched, equal(1))).unwrap();
    let busy = word.clone();
    let hog = runtime
        .spawn_with(daiko::Builder::new().on(0), move || {
            // The waiter can only end elsewhere: this fiber does not suspend before the waiter has
            // ended.
            busy.store(1, Ordering::Release);
            while busy.load(Ordering::Acquire) != 2 {
                std::hint::spin_loop();
            }
        })
        .unwrap();
    assert_eq!(waiter.join().unwrap(), 1);
    word.store(2, Ordering::Release);
    hog.join().unwrap();
}

#[test]
fn a_watch_that_timed_out_leaves_nothing_behind() {
    everywhere(|| {
        let (short, word) = (Duration::from_micros(20), Box::new(AtomicU64::new(4)));
        assert_eq!(watch::wait_until_timeout(&*word, at_least(5), short), Err(TimedOut));
        assert_eq!(watch::wait_until_notified_timeout(&*word, at_least(5), short), Err(TimedOut));
        let now = Instant::now();
        assert_eq!(watch::wait_until_timeout(&*word, at_least(5), now), Err(TimedOut));
        assert_eq!(watch::wait_until_notified_timeout(&*word, at_least(5), now), Err(TimedOut));
        word.store(5, Ordering::Release);
        assert_eq!(watch::notify(&*word), 0, "a fiber still watches");
        assert_eq!(watch::wait_until_timeout(&*word, at_least(5), Duration::ZERO), Ok(5));
        assert_eq!(watch::wait_until_notified_timeout(&*word, at_least(5), now), Ok(5));
    });
}

#[test]
fn of_value_and_timeout_exactly_one_comes() {
    everywhere(|| {
        for lap in 0..100 {
            let word = Arc::new(AtomicU64::new(0));
            let theirs = word.clone();
            let notified = lap % 2 == 0;
            let writer = daiko::spawn(move || {
                daiko::time::sleep(Duration::from_nanos(200 * lap));
                theirs.store(1, Ordering::Release);
                if notified { watch::notify(&*theirs) } else { 0 }
            });
            let wait: fn(&AtomicU64, _, _) -> _ = if notified {
                watch::wait_until_notified_timeout
            } else {
                watch::wait_until_timeout
            };
            let come = wait(&word, at_least(1), Duration::from_nanos(200 * lap));
            let woken = writer.join().unwrap();
            assert!(come == Ok(1) || come == Err(TimedOut) && woken == 0, "{come:?}, {woken}");
        }
    });
}

#[test]
fn a_slot_is_not_waited_for_longer_than_asked() {
    everywhere(|| {
        for make in [NotificationArea::<u32>::new, NotificationArea::notified] {
            let (area, mut slots) = make(2);
            let (slot, short) = (&mut slots[1], Duration::from_micros(20));
            assert_eq!(slot.wait_timeout(short), Err(SlotTimeoutError::TimedOut));
            assert_eq!(slot.wait_timeout(Instant::now()), Err(SlotTimeoutError::TimedOut));
            area.notify_with(1, 9);
            assert_eq!(slot.wait_timeout(Duration::ZERO), Ok(9));
            let writers = area.clone();
            let writer = daiko::spawn(move || writers.notify(1));
            assert_eq!(slot.wait_timeout(Duration::from_secs(3600)), Ok(1));
            writer.join().unwrap();
            drop(area);
            assert_eq!(slot.wait_timeout(short), Err(SlotTimeoutError::Closed));
        }
    });
}

/// Waits for a word of each type in turn, and has another fiber write it.
macro_rules! waits_for {
    ($($atomic:ty: $from:expr, $until:expr, $to:expr;)*) => {$(
        let word = Arc::new(<$atomic>::new($from));
        let theirs = word.clone();
        let waiter = daiko::spawn(move || watch::wait_until(&*theirs, $until));
        let theirs = word.clone();
        let notified = daiko::spawn(move || watch::wait_until_notified(&*theirs, $until));
        daiko::yield_now();
        assert!(!waiter.is_finished() && !notified.is_finished());
        word.store($to, Ordering::Release);
        watch::notify(&*word);
        assert_eq!((waiter.join().unwrap(), notified.join().unwrap()), ($to, $to));
    )*};
}

#[test]
fn words_of_all_types_are_waited_for() {
    everywhere(|| {
        waits_for! {
            AtomicU8: 0, at_least(200), 201;
            AtomicU16: 1, changed_from(1), u16::MAX;
            AtomicU32: 0, any_bit(4), 6;
            AtomicU64: 7, equal(1 << 40), 1 << 40;
            AtomicUsize: 0, at_least(1), usize::MAX;
            AtomicI8: -5, at_least(-4), 0;
            AtomicI16: i16::MIN, at_least(-1), -1;
            AtomicI32: 0, equal(-7), -7;
            AtomicI64: i64::MIN, at_least(0), 0;
            AtomicIsize: 3, changed_from(3), -3;
            AtomicBool: false, equal(true), true;
        }
        let (target, word) = (Box::into_raw(Box::new(7)), AtomicPtr::new(ptr::null_mut()));
        daiko::scope(|s| {
            let waiter = s.spawn(|| {
                let seen = watch::wait_until(&word, changed_from(ptr::null_mut()));
                // SAFETY: a live value, which goes to the waiter with the pointer.
                *unsafe { Box::from_raw(seen) }
            });
            word.store(target, Ordering::Release);
            assert_eq!(waiter.join().unwrap(), 7);
        });
    });
}

#[test]
fn the_first_of_several_words_ends_the_wait() {
    everywhere(|| {
        let (flag, level, count) = (AtomicBool::new(false), AtomicI16::new(-9), AtomicU64::new(0));
        let words = [
            Watched::new(&flag, equal(true)),
            Watched::new(&level, at_least(-3)),
            Watched::new(&count, at_least(5)),
        ];
        let short = Duration::from_micros(20);
        assert_eq!(watch::first_timeout(&words, short), Err(TimedOut));
        assert_eq!(watch::first_timeout(&words, Instant::now()), Err(TimedOut));
        let write = |index| match index {
            0 => flag.store(true, Ordering::Release),
            1 => level.store(-3, Ordering::Release),
            _ => count.store(8, Ordering::Release),
        };
        let (words, write) = (&words, &write);
        daiko::scope(|s| {
            for index in 0..3 {
                flag.store(false, Ordering::Relaxed);
                level.store(-9, Ordering::Relaxed);
                let waiters = [
                    s.spawn(|| watch::first(words)),
                    s.spawn(|| WatchBuilder::new().peer_elsewhere().first(words)),
                ];
                s.spawn(move || write(index)).join().unwrap();
                assert_eq!(waiters.map(|waiter| waiter.join().unwrap()), [index; 2]);
                assert_eq!(watch::first_timeout(words, Duration::ZERO), Ok(index));
            }
        });
        // The lowest index counts.
        write(1);
        assert_eq!(watch::first(words), 1);
    });
}

#[test]
fn a_wait_for_several_words_can_be_cancelled() {
    everywhere(|| {
        let words = [const { AtomicU8::new(0) }; 2];
        daiko::scope(|s| {
            let waiter = s
                .spawn(|| watch::first(&words.each_ref().map(|word| Watched::new(word, equal(1)))));
            daiko::yield_now();
            waiter.cancel();
            assert!(waiter.join().is_err());
        });
    });
}

#[test]
fn an_area_lies_over_words_that_exist_already() {
    everywhere(|| {
        let words: Arc<Vec<AtomicU32>> = Arc::new((0..9).map(|_| AtomicU32::new(0)).collect());
        words[2].store(5, Ordering::Release);
        let (area, mut slots) = NotificationArea::<u32>::over(words.clone());
        assert_eq!((area.len(), slots.len()), (9, 9));
        assert_eq!(slots[2].wait(), Ok(5), "it came before the area");
        let (other, mut slot) = (words.clone(), slots.pop().unwrap());
        let waiter = daiko::spawn(move || slot.wait());
        daiko::yield_now();
        std::thread::spawn(move || other[8].store(3, Ordering::Release)).join().unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(3));
        area.notify(0);
        assert_eq!((slots[0].wait(), words[0].load(Ordering::Relaxed)), (Ok(1), 0));
        drop(area);
        assert_eq!(slots[1].wait(), Err(Closed));
        // The agent has let go of the words.
        drop(slots);
        assert_eq!(Arc::strong_count(&words), 1);
    });
}

#[test]
#[should_panic(expected = "name at least one")]
fn a_wait_for_no_word_is_refused() {
    daiko::run(|| watch::first(&[]));
}
