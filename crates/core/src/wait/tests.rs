//! The wait queue against a plain list of waiters.

use proptest::prelude::*;

use super::*;
use crate::lock::testing::Tester;
use crate::testing::scaled;

#[derive(Clone, Debug)]
enum Step {
    Enqueue(usize),
    EnqueueFirst(usize),
    Claim(u8),
    /// The first waiter of this number or a higher one.
    ClaimFrom(usize),
    TakeOne,
    TakeAll,
    Unlink(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0usize..8).prop_map(Step::Enqueue),
        1 => (0usize..8).prop_map(Step::EnqueueFirst),
        1 => any::<u8>().prop_map(Step::Claim),
        1 => (0usize..8).prop_map(Step::ClaimFrom),
        1 => prop_oneof![Just(Step::TakeOne), Just(Step::TakeAll)],
        1 => (0usize..8).prop_map(Step::Unlink),
    ]
}

proptest! {
    #[test]
    fn behaves_as_a_plain_list(steps in prop::collection::vec(step(), 0..scaled(200))) {
        let (queue, me) = (WaitQueue::new(0), Tester(1));
        let nodes: Vec<_> = (0usize..8).map(Node::new).collect();
        let mut states = [NodeState::Out; 8];
        let mut line: Vec<usize> = Vec::new();
        for step in steps {
            match step {
                Step::Enqueue(i) if !line.contains(&i) => {
                    // SAFETY: in no queue, and it outlives the queue.
                    unsafe { queue.enqueue(&me, NonNull::from(&nodes[i])) };
                    line.push(i);
                    states[i] = NodeState::Queued;
                }
                Step::EnqueueFirst(i) if !line.contains(&i) => {
                    // SAFETY: in no queue, and it outlives the queue.
                    unsafe { queue.lock(&me).enqueue_first(NonNull::from(&nodes[i])) };
                    line.insert(0, i);
                    states[i] = NodeState::Queued;
                }
                Step::Enqueue(_) | Step::EnqueueFirst(_) => {}
                Step::ClaimFrom(least) => {
                    let place = line.iter().position(|&waiter| waiter >= least);
                    let first = place.map(|place| line.remove(place));
                    let claimed = queue.lock(&me).claim_first_that(3, |waiter| waiter >= least);
                    prop_assert_eq!(claimed, first);
                    first.inspect(|&first| states[first] = NodeState::Claimed(3));
                }
                Step::Claim(note) => {
                    let first = (!line.is_empty()).then(|| line.remove(0));
                    prop_assert_eq!(queue.lock(&me).first(), first);
                    prop_assert_eq!(queue.claim_first(&me, note), first);
                    first.inspect(|&first| states[first] = NodeState::Claimed(note));
                }
                Step::TakeOne | Step::TakeAll => {
                    let one = matches!(step, Step::TakeOne);
                    let taken = {
                        let mut queue = queue.lock(&me);
                        if one { queue.take_one() } else { queue.take_all() }
                    };
                    let most = if one { 1 } else { line.len() };
                    let expected: Vec<_> = line.drain(..most.min(line.len())).collect();
                    for &i in &expected {
                        prop_assert_eq!(nodes[i].state(), NodeState::Moved);
                        // SAFETY: alive, and never in another queue.
                        let unlinked = unsafe { queue.unlink(&me, NonNull::from(&nodes[i])) };
                        prop_assert_eq!(unlinked, Unlinked::AlreadyGone);
                        states[i] = NodeState::Claimed(0);
                    }
                    prop_assert_eq!(taken.collect::<Vec<_>>(), expected);
                }
                Step::Unlink(i) => {
                    let place = line.iter().position(|&waiter| waiter == i);
                    // SAFETY: alive, and never in another queue.
                    let unlinked = unsafe { queue.unlink(&me, NonNull::from(&nodes[i])) };
                    let expected = if place.is_some() { Unlinked::Mine } else { Unlinked::AlreadyGone };
                    prop_assert_eq!(unlinked, expected);
                    place.inspect(|&place| {
                        line.remove(place);
                        states[i] = NodeState::Out;
                    });
                }
            }
            prop_assert_eq!(queue.has_waiters(), !line.is_empty());
            let seen: Vec<_> = nodes.iter().map(Node::state).collect();
            prop_assert_eq!(&seen[..], &states[..]);
        }
    }
}

#[test]
fn a_claimed_waiter_that_leaves_passes_the_wake_on() {
    let (queue, me) = (WaitQueue::new(0), Tester(1));
    let nodes = ["first", "second"].map(Node::new);
    for node in &nodes {
        // SAFETY: in no queue, and it outlives the queue.
        unsafe { queue.enqueue(&me, NonNull::from(node)) };
    }
    assert_eq!(queue.claim_first(&me, 0), Some("first"));
    // SAFETY: alive, and last in this queue.
    let unlinked = unsafe { queue.unlink(&me, NonNull::from(&nodes[0])) };
    assert_eq!(unlinked, Unlinked::AlreadyGone);
    assert_eq!(queue.pass_on(&me, 0), Some("second"));
}

#[test]
fn the_word_is_the_objects_own() {
    let queue = WaitQueue::<usize>::new(3);
    assert_eq!(queue.word().load(Ordering::Relaxed), 3);
}
