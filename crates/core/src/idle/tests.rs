//! The set compared with a plain one.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::barrier::Fences;
use crate::barrier::testing::{Half, PassedHalves};
use crate::testing::scaled;

#[derive(Clone, Debug)]
enum Step {
    Announce(usize),
    Retract(usize),
    Pick { rest: usize },
}

const WORKERS: usize = 130;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..WORKERS).prop_map(Step::Announce),
        1 => (0..WORKERS).prop_map(Step::Retract),
        1 => (0..3_usize).prop_map(|rest| Step::Pick { rest }),
    ]
}

proptest! {
    #[test]
    fn behaves_as_a_plain_set(steps in prop::collection::vec(step(), 0..scaled(300))) {
        let (idle, mut set) = (IdleSet::new(WORKERS), BTreeSet::new());
        for step in steps {
            match step {
                Step::Announce(worker) => {
                    idle.announce(worker, &Fences);
                    set.insert(worker);
                }
                Step::Retract(worker) => prop_assert_eq!(idle.retract(worker), set.remove(&worker)),
                Step::Pick { rest } => {
                    // Not by parity, which the number of a worker shares with that of its bit.
                    let preferred = |worker: usize| worker % 3 == rest;
                    // The worker comes from the first word that has any.
                    let first = set.first().map(|worker| worker / 64);
                    let mut word = set.iter().filter(|worker| Some(*worker / 64) == first);
                    let expected = word.clone().find(|worker| preferred(**worker)).or(word.next());
                    let expected = expected.copied();
                    prop_assert_eq!(idle.pick_one(&Fences, preferred), expected);
                    expected.inspect(|worker| _ = set.remove(worker));
                }
            }
            prop_assert_eq!((idle.len(), idle.is_empty()), (set.len(), set.is_empty()));
            prop_assert!((0..WORKERS).all(|worker| idle.contains(worker) == set.contains(&worker)));
        }
    }
}

#[test]
#[should_panic(expected = "at most")]
fn too_many_workers_are_refused() {
    IdleSet::new(MAX_WORKERS + 1);
}

#[test]
fn workers_that_are_new_are_found_in_a_set_that_has_grown() {
    let idle = IdleSet::new(1);
    idle.grow(WORKERS);
    idle.announce(129, &Fences);
    idle.grow(2);
    assert_eq!((idle.len(), idle.pick_one(&Fences, |_| true)), (1, Some(129)));
}

#[test]
fn a_worker_that_parks_passes_the_heavy_half_and_a_thread_with_work_the_light_one() {
    let (idle, halves) = (IdleSet::new(1), PassedHalves::default());
    idle.announce(0, &halves);
    assert_eq!(halves.take(), [Half::Heavy]);
    assert_eq!(idle.pick_one(&halves, |_| true), Some(0));
    assert_eq!(halves.take(), [Half::Light]);
}

#[test]
fn a_worker_above_the_bound_is_not_picked_and_stays() {
    let idle = IdleSet::new(WORKERS);
    for worker in [3, 63, 64, 100] {
        idle.announce(worker, &Fences);
    }
    let pick = |end| idle.pick_one_below(end, &Fences, |worker| worker >= 63);
    assert_eq!([pick(0), pick(3)], [None; 2]);
    assert_eq!([pick(64), pick(64), pick(64)], [Some(63), Some(3), None]);
    assert_eq!([pick(65), pick(100), pick(101), pick(WORKERS)], [Some(64), None, Some(100), None]);
}
