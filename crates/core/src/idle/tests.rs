//! The set against a plain one.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::barrier::Fences;

#[derive(Clone, Debug)]
enum Step {
    Announce(usize),
    Retract(usize),
    Pick,
}

const WORKERS: usize = 130;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..WORKERS).prop_map(Step::Announce),
        1 => (0..WORKERS).prop_map(Step::Retract),
        1 => Just(Step::Pick),
    ]
}

proptest! {
    #[test]
    fn behaves_as_a_plain_set(steps in prop::collection::vec(step(), 0..300)) {
        let (idle, mut set) = (IdleSet::new(WORKERS), BTreeSet::new());
        for step in steps {
            match step {
                Step::Announce(worker) => {
                    idle.announce(worker, &Fences);
                    set.insert(worker);
                }
                Step::Retract(worker) => prop_assert_eq!(idle.retract(worker), set.remove(&worker)),
                Step::Pick => prop_assert_eq!(idle.pick_one(&Fences), set.pop_first()),
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
