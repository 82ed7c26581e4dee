//! No fiber starves in a queue that passes fibers over.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// A fiber in a queue: its class, the number of times it was passed over, and the number of runs it
/// may still have to wait for.
#[derive(Clone, Copy, Debug)]
struct Queued {
    class: Class,
    passed: u8,
    patience: usize,
}

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![Just(Class::Unknown), Just(Class::Compute), Just(Class::Stall)]
}

fn take(queue: &mut VecDeque<Queued>, sought: Class) -> Queued {
    let chosen = pick(sought, queue.iter().map(|fiber| (fiber.class, fiber.passed)));
    queue.iter_mut().take(chosen).for_each(|before| before.passed += 1);
    queue.remove(chosen).expect("one of the queue")
}

#[test]
fn a_class_is_its_number() {
    for class in [Class::Unknown, Class::Compute, Class::Stall] {
        assert_eq!(Class::from_bits(class as u8), class);
    }
    assert_eq!(Class::from_bits(3), Class::Unknown);
}

#[test]
fn an_agent_gives_way_from_the_end_of_its_time_on() {
    let beside_compute = [POLITE_NS - 1, POLITE_NS].map(|idle| gives_way([Class::Compute], idle));
    assert_eq!(beside_compute, [false, true]);
}

proptest! {
    #[test]
    fn a_fiber_waits_for_those_before_it_and_is_passed_over_so_often_at_most(
        steps in prop::collection::vec((prop::option::of(class()), prop_oneof![Just(Class::Compute), Just(Class::Stall)]), 1..400),
    ) {
        let mut queue = VecDeque::new();
        for (comes, sought) in steps {
            if let Some(class) = comes {
                let patience = queue.len() + usize::from(PASSES);
                queue.push_back(Queued { class, passed: 0, patience });
            } else if !queue.is_empty() {
                take(&mut queue, sought);
                for fiber in &mut queue {
                    prop_assert!(fiber.passed <= PASSES && fiber.patience > 0, "{:?}", fiber);
                    fiber.patience -= 1;
                }
            }
        }
    }

    #[test]
    fn a_complement_runs_next_if_it_is_near_and_no_fiber_was_passed_too_often(
        queue in prop::collection::vec((class(), 0..PASSES), 1..10),
    ) {
        let near = queue.iter().take(LOOKS).position(|(class, _)| *class == Class::Stall);
        prop_assert_eq!(pick(Class::Stall, queue.clone()), near.unwrap_or(0));
    }

    #[test]
    fn the_wanted_class_complements_most_running_siblings(
        running in prop::collection::vec(class(), 0..8),
    ) {
        let count = |class| running.iter().filter(|one| **one == class).count();
        let (computing, stalling) = (count(Class::Compute), count(Class::Stall));
        match wanted(running.clone()) {
            None => prop_assert_eq!(computing, stalling),
            Some(Class::Stall) => prop_assert!(computing > stalling),
            Some(class) => {
                prop_assert_eq!(class, Class::Compute);
                prop_assert!(stalling > computing);
            }
        }
    }
}
