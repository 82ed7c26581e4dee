//! Words of a segment, that agents of several processes watch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use daiko::shm::{Segment, SegmentError, Words};
use daiko::watch::{self, NotificationArea, WatchBuilder, Watched, at_least, equal};

use crate::place::{LONG, Place, rest, theirs};
use crate::support::child::is_child;
use crate::support::{OnDrop, assert_names, workers};

fn words(segment: &Segment, name: &str) -> Words<AtomicU64> {
    Words::open_or_create(segment, name, 64).unwrap()
}

#[test]
fn agents_of_two_processes_wake_each_others_waiters() {
    const NAME: &str = "words::agents_of_two_processes_wake_each_others_waiters";
    const ROUNDS: u64 = 1_000;
    /// Takes a number from a word of `from`, and stores the next one in `to`.
    fn play(from: Words<AtomicU64>, to: &Words<AtomicU64>, begins: bool) {
        let (_area, slots) = NotificationArea::<u64>::over(Arc::new(from));
        daiko::scope(|s| {
            for mut slot in slots.into_iter().step_by(21) {
                s.spawn(move || {
                    let at = slot.index();
                    for round in 0..ROUNDS {
                        if begins {
                            to[at].store(2 * round + 1, Ordering::Release);
                        }
                        let expected = 2 * round + if begins { 2 } else { 1 };
                        assert_eq!(slot.wait_timeout(LONG), Ok(expected));
                        if !begins {
                            to[at].store(expected + 1, Ordering::Release);
                        }
                    }
                });
            }
        });
    }
    if is_child() {
        let (ping, pong) = (words(&theirs(), "ping"), words(&theirs(), "pong"));
        return workers(1).run(move || play(ping, &pong, false));
    }
    let place = Place::new("words");
    let (ping, pong) = (words(&place.segment, "ping"), words(&place.segment, "pong"));
    let mut child = place.child(NAME);
    workers(2).run(move || play(pong, &ping, true));
    child.ends_well();
}

#[test]
fn what_a_process_stored_before_it_was_killed_is_seen() {
    const NAME: &str = "words::what_a_process_stored_before_it_was_killed_is_seen";
    if is_child() {
        let words = words(&theirs(), "words");
        words[9].store(3, Ordering::Release);
        rest(&theirs(), "stored");
    }
    let place = Place::new("killed");
    let (words, stored) = (words(&place.segment, "words"), place.event("stored"));
    let child = place.child(NAME);
    stored.wait();
    child.kill();
    workers(1).run(move || {
        assert_eq!(watch::wait_until(&words[9], at_least(3)), 3);
        let both = [Watched::new(&words[8], equal(1)), Watched::new(&words[9], at_least(2))];
        assert_eq!(watch::first(&both), 1);
        let (_area, mut slots) =
            WatchBuilder::new().peer_elsewhere().area_over::<u64, _>(Arc::new(words));
        assert_eq!(slots[9].wait_timeout(LONG), Ok(3));
    });
}

/// The words of an area lead nowhere.
#[test]
fn a_peer_that_writes_anything_into_an_area_wakes_and_no_more() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let other = segment.as_fd(Segment::from_fd).unwrap();
    let (mine, peers) = (words(&segment, "words"), words(&other, "words"));
    let ends = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            let mut dice = 1u64;
            while !ends.load(Ordering::Relaxed) {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                peers[(dice >> 40) as usize % 64].store(dice >> (dice >> 58), Ordering::Relaxed);
                thread::yield_now();
            }
        });
        let _ends = OnDrop(|| ends.store(true, Ordering::Relaxed));
        workers(1).run(move || {
            let (_area, slots) = NotificationArea::<u64>::over(Arc::new(mine));
            daiko::scope(|s| {
                for mut slot in slots {
                    s.spawn(move || {
                        (0..20).for_each(|_| assert_ne!(slot.wait_timeout(LONG), Ok(0)));
                    });
                }
            });
        });
    });
}

#[test]
fn words_of_another_width_or_none_are_refused() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let none = Words::<AtomicU32>::create(&segment, "words", 0).map(drop).unwrap_err();
    assert!(matches!(none, SegmentError::Impossible { .. }));
    assert_names(&none, "choose 1 to");
    let much = Words::<AtomicU64>::create(&segment, "words", u32::MAX).map(drop).unwrap_err();
    assert!(matches!(much, SegmentError::NoRoom { .. }), "{much}");
    assert_eq!(words(&segment, "words").len(), 64);
    let other = Words::<AtomicU32>::open(&segment, "words").map(drop).unwrap_err();
    assert!(matches!(other, SegmentError::Other { differs: "type", .. }), "{other}");
}
