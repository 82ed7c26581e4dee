use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use daiko::shm::{Barrier, BarrierError, Segment, SegmentError, Words};
use proptest::prelude::*;

use crate::place::{LONG, Place, SHORT, let_them_sleep, rest, role, theirs};
use crate::support::child::is_child;
use crate::support::{assert_names, workers};

fn barrier(segment: &Segment, parties: u32) -> Barrier {
    Barrier::open_or_create(segment, "barrier", parties).unwrap()
}

#[test]
fn parties_of_several_processes_meet_in_each_round() {
    const NAME: &str = "barrier::parties_of_several_processes_meet_in_each_round";
    const ROUNDS: u64 = 1_000;
    const EACH: usize = 3;
    fn meet(segment: &Segment, first: usize) {
        let at = Words::<AtomicU64>::open_or_create(segment, "at", 2 * EACH as u32 + 1).unwrap();
        let barrier = barrier(segment, 2 * EACH as u32);
        let meets = |who: usize| {
            let mut party = barrier.party().unwrap();
            for round in 1..=ROUNDS {
                at[who].store(round, Ordering::Relaxed);
                let met = party.wait().unwrap();
                // A party may be one round further by now.
                let others = at[..2 * EACH].iter().map(|at| at.load(Ordering::Relaxed));
                others.for_each(|at| assert!(at == round || at == round + 1, "{at} at {round}"));
                at[2 * EACH].fetch_add(u64::from(met.is_leader()), Ordering::Relaxed);
            }
        };
        let (runtime, meets) = (workers(2), &meets);
        runtime.scope(|fibers| {
            thread::scope(|threads| {
                (1..EACH).for_each(|who| _ = fibers.spawn(move || meets(first + who)));
                threads.spawn(move || meets(first));
            });
        });
    }
    if is_child() {
        return meet(&theirs(), EACH);
    }
    let place = Place::new("barrier");
    let mut child = place.child(NAME);
    meet(&place.segment, 0);
    child.ends_well();
    let at = Words::<AtomicU64>::open(&place.segment, "at").unwrap();
    assert_eq!(at[2 * EACH].load(Ordering::Relaxed), ROUNDS, "one leader in each round");
}

#[test]
fn all_that_wait_are_told_of_a_killed_party_and_meet_its_successor() {
    const NAME: &str = "barrier::all_that_wait_are_told_of_a_killed_party_and_meet_its_successor";
    if is_child() {
        let segment = theirs();
        let mut party = barrier(&segment, 3).party().unwrap();
        if role() == "successor" {
            return assert!(party.wait_timeout(LONG).is_ok());
        }
        rest(&segment, "joined");
    }
    let place = Place::new("killed");
    let barrier = barrier(&place.segment, 3);
    let child = place.child(NAME);
    let pid = child.0.id();
    place.event("joined").wait();
    let (fiber, thread) = (barrier.party().unwrap(), barrier.party().unwrap());
    assert_eq!(barrier.party().map(drop), Err(BarrierError::Taken));
    let waits = move |mut party: daiko::shm::BarrierParty| {
        let error = party.wait_timeout(LONG).unwrap_err();
        (party, error)
    };
    let runtime = workers(1);
    let fiber = runtime.spawn(move || waits(fiber));
    let thread = thread::spawn(move || waits(thread));
    let_them_sleep();
    child.kill();
    let parties = [fiber.join().unwrap(), thread.join().unwrap()].map(|(mut party, error)| {
        assert_eq!(error, BarrierError::Died { pid });
        // There is no successor yet.
        assert_eq!(party.wait(), Err(error));
        party
    });
    let mut successor = place.child_as(NAME, "successor");
    let again = parties.map(|mut party| {
        thread::spawn(move || {
            loop {
                match party.wait_timeout(LONG) {
                    Err(BarrierError::Died { .. }) => thread::yield_now(),
                    met => return met.map(drop),
                }
            }
        })
    });
    assert_eq!(again.map(|party| party.join().unwrap()), [Ok(()); 2]);
    successor.ends_well();
}

#[test]
fn the_arrival_of_a_party_that_is_killed_counts() {
    const NAME: &str = "barrier::the_arrival_of_a_party_that_is_killed_counts";
    if is_child() {
        let segment = theirs();
        let mut party = barrier(&segment, 2).party().unwrap();
        assert_eq!(party.wait_timeout(Duration::ZERO), Err(BarrierError::TimedOut));
        rest(&segment, "arrived");
    }
    let place = Place::new("arrived");
    let barrier = barrier(&place.segment, 2);
    let mut party = barrier.party().unwrap();
    let child = place.child(NAME);
    place.event("arrived").wait();
    child.kill();
    assert!(party.wait_timeout(LONG).unwrap().is_leader());
    assert!(matches!(party.wait_timeout(LONG), Err(BarrierError::Died { .. })));
    // The place is free at once, and its new party is in the second round.
    let mut heir = barrier.party().unwrap();
    assert!(heir.wait_timeout(LONG).unwrap().is_leader());
    assert!(!party.wait_timeout(LONG).unwrap().is_leader());
}

#[test]
fn a_party_that_is_dropped_ends_the_wait_of_the_others() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let barrier = barrier(&segment, 2);
    let (mut stays, leaves) = (barrier.party().unwrap(), barrier.party().unwrap());
    let runtime = workers(1);
    let waiter = runtime.spawn(move || stays.wait_timeout(LONG).map(drop));
    let_them_sleep();
    drop(leaves);
    let left = BarrierError::Left { pid: std::process::id() };
    assert_eq!(waiter.join().unwrap(), Err(left));
    assert_names(&left, "start another party");
}

#[test]
fn a_wait_that_ends_by_its_deadline_has_arrived_and_goes_on() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    let waits = move || {
        let barrier = barrier(&segment, 2);
        let (mut one, mut other) = (barrier.party().unwrap(), barrier.party().unwrap());
        for timeout in [Duration::ZERO, SHORT] {
            assert_eq!(one.wait_timeout(timeout), Err(BarrierError::TimedOut));
            assert_eq!(one.wait_timeout(Instant::now() + timeout), Err(BarrierError::TimedOut));
        }
        assert!(other.wait_timeout(Duration::ZERO).unwrap().is_leader());
        assert!(!one.wait_timeout(Duration::ZERO).unwrap().is_leader());
        assert_eq!(one.wait_timeout(Duration::ZERO), Err(BarrierError::TimedOut));
        // A successor finds the arrival.
        drop(one);
        let mut heir = barrier.party().unwrap();
        assert!(other.wait_timeout(Duration::ZERO).unwrap().is_leader());
        assert!(!heir.wait_timeout(Duration::ZERO).unwrap().is_leader());
    };
    waits();
    workers(1).run(waits);
}

#[test]
fn a_barrier_of_no_parties_is_refused() {
    let segment = Segment::anonymous(1 << 20).unwrap();
    for parties in [0, Barrier::MAX_PARTIES + 1] {
        let error = Barrier::open_or_create(&segment, "barrier", parties).map(drop).unwrap_err();
        assert!(matches!(error, SegmentError::Impossible { .. }), "{error:?}");
        assert_names(&error, "choose 1 to 4096 parties");
    }
    assert_eq!(barrier(&segment, 5).parties(), 5);
    assert_eq!(barrier(&segment, 7).parties(), 5);
}

proptest! {
    /// A plain count is the oracle: a round is complete with the arrival of the last party.
    #[test]
    fn rounds_are_complete_with_the_last_arrival(
        parties in 1..5usize, steps in prop::collection::vec(0..5usize, 0..60),
    ) {
        let segment = Segment::anonymous(1 << 20).unwrap();
        let other = segment.as_fd(Segment::from_fd).unwrap();
        let mine = barrier(&segment, parties as u32);
        let theirs = barrier(&other, parties as u32);
        let mut all: Vec<_> = (0..parties)
            .map(|at| if at % 2 == 0 { &mine } else { &theirs }.party().unwrap())
            .collect();
        // The round in which each party waits.
        let (mut round, mut waits) = (0, vec![None; parties]);
        for at in steps {
            let at = at % parties;
            let of = *waits[at].get_or_insert(round);
            let is_last = of == round && waits.iter().all(|waits| *waits == Some(round));
            let met = all[at].wait_timeout(Duration::ZERO);
            prop_assert_eq!(met.is_ok(), is_last || of < round);
            round += usize::from(is_last);
            if let Ok(met) = met {
                prop_assert_eq!(met.is_leader(), is_last);
                waits[at] = None;
            }
        }
    }
}
