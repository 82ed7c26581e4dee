//! The ring against a plain queue, and against real thieves.

use std::collections::VecDeque;
use std::sync::{Barrier, Mutex};
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::element::{Element, boxed, take};
use crate::testing::scaled;

#[derive(Clone, Debug)]
enum Step {
    Push,
    Pop,
    Steal,
}

/// Returns the size of the older half, rounded up, as far as `room` reaches.
fn stolen(len: usize, room: usize) -> usize {
    (len - len / 2).min(room)
}

fn push(queue: &Local<'_, Element>, value: usize) -> Vec<usize> {
    // SAFETY: fresh; freed by `take` after it left the queue.
    match unsafe { queue.push(boxed(value)) } {
        Ok(()) => Vec::new(),
        Err(Full(chain)) => chain.map(take).collect(),
    }
}

proptest! {
    #[test]
    fn behaves_as_a_plain_queue(
        steps in prop::collection::vec(
            prop_oneof![4 => Just(Step::Push), 1 => Just(Step::Pop), 1 => Just(Step::Steal)], 0..scaled(1000),
        ),
    ) {
        let (mut ring, mut other) = (StealQueue::new(), StealQueue::new());
        let ((local, steal), (thief, _)) = (ring.split(), other.split());
        let (mut queue, mut loot) = (VecDeque::new(), VecDeque::new());
        for (value, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push => {
                    let full = queue.len() == CAPACITY;
                    queue.push_back(value);
                    let expected: Vec<_> = if full {
                        queue.drain(..CAPACITY / 2).chain([value]).collect()
                    } else {
                        Vec::new()
                    };
                    if full {
                        queue.pop_back();
                    }
                    prop_assert_eq!(push(&local, value), expected);
                }
                Step::Pop => prop_assert_eq!(local.pop().map(take), queue.pop_front()),
                Step::Steal => {
                    let count = stolen(queue.len(), CAPACITY - loot.len());
                    prop_assert_eq!(steal.steal_into(&thief), count > 0);
                    loot.extend(queue.drain(..count));
                }
            }
            prop_assert_eq!((local.len(), steal.len()), (queue.len(), queue.len()));
            prop_assert_eq!(thief.len(), loot.len());
            prop_assert_eq!(steal.peek(), local.peek().next());
        }
        let seen: Vec<_> = local.peek().collect();
        let left: Vec<_> = std::iter::from_fn(|| local.pop()).collect();
        prop_assert_eq!(seen, left.clone());
        prop_assert!(left.into_iter().map(take).eq(queue));
        prop_assert!(std::iter::from_fn(|| thief.pop().map(take)).eq(loot));
    }
}

#[test]
fn nothing_is_stolen_from_oneself() {
    let mut ring = StealQueue::new();
    let (local, steal) = ring.split();
    assert!(push(&local, 1).is_empty());
    assert!(!steal.steal_into(&local));
    assert_eq!(local.pop().map(take), Some(1));
}

#[test]
fn under_thieves_each_fiber_comes_out_once() {
    const FIBERS: usize = scaled(20_000);
    let ring = StealQueue::new();
    let (start, seen) = (Barrier::new(3), Mutex::new(Vec::new()));
    let report = |mut values: Vec<usize>| seen.lock().unwrap().append(&mut values);
    let thief = || {
        let mut own = StealQueue::new();
        let (local, _) = own.split();
        let mut values = Vec::new();
        start.wait();
        while seen.lock().unwrap().is_empty() {
            ring.steal().steal_into(&local);
            values.extend(std::iter::from_fn(|| local.pop().map(take)));
        }
        report(values);
    };
    thread::scope(|scope| {
        scope.spawn(thief);
        scope.spawn(thief);
        // SAFETY: the only owner.
        let local = unsafe { ring.local() };
        let mut values = Vec::new();
        start.wait();
        for value in 0..FIBERS {
            values.append(&mut push(&local, value));
            if value % 3 == 0 {
                values.extend(local.pop().map(take));
            }
        }
        values.extend(std::iter::from_fn(|| local.pop().map(take)));
        report(values);
    });
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..FIBERS));
}
