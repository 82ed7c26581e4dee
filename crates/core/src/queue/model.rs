//! An owner that pushes and pops, and a thief.

use loom::sync::Arc;
use loom::thread;

use super::*;
use crate::element::{Element, boxed, look, take};

fn push(queue: &Local<'_, Element>, value: usize) -> Vec<usize> {
    // SAFETY: fresh; freed by `take` after it left the queue.
    match unsafe { queue.push(boxed(value)) } {
        Ok(()) => Vec::new(),
        Err(Full(chain)) => chain.map(take).collect(),
    }
}

fn steal_all(ring: &StealQueue<Element>, attempts: usize) -> Vec<usize> {
    let mut own = StealQueue::new();
    let (local, _) = own.split();
    let mut values = Vec::new();
    for _ in 0..attempts {
        ring.steal().steal_into(&local, |_, _| ());
        values.extend(std::iter::from_fn(|| local.pop().map(take)));
    }
    values
}

fn owner_and_thieves(fibers: usize, thieves: usize, attempts: usize) {
    loom::model(move || {
        let ring = Arc::new(StealQueue::new());
        let handles: Vec<_> = (0..thieves)
            .map(|_| {
                let ring = ring.clone();
                thread::spawn(move || steal_all(&ring, attempts))
            })
            .collect();
        // SAFETY: the only owner.
        let local = unsafe { ring.local() };
        let mut values = Vec::new();
        for value in 0..fibers {
            values.append(&mut push(&local, value));
        }
        values.extend(std::iter::from_fn(|| local.pop().map(take)));
        for handle in handles {
            values.append(&mut handle.join().unwrap());
        }
        values.sort_unstable();
        assert!(values.into_iter().eq(0..fibers), "each fiber comes out once");
    });
}

#[test]
fn a_thief_sees_the_items_that_it_takes() {
    owner_and_thieves(2, 1, 2);
}

#[test]
fn thieves_share_without_loss() {
    owner_and_thieves(2, 2, 1);
}

#[test]
fn an_overflow_meets_a_thief() {
    owner_and_thieves(CAPACITY + 1, 1, 1);
}

#[test]
fn a_fiber_that_a_thief_looks_at_shows_its_contents() {
    loom::model(|| {
        let ring = Arc::new(StealQueue::new());
        let thief = {
            let ring = ring.clone();
            thread::spawn(move || ring.steal().peek().map(look))
        };
        // SAFETY: the only owner.
        let local = unsafe { ring.local() };
        assert!(push(&local, 7).is_empty());
        assert!(matches!(thief.join().unwrap(), None | Some(7)));
        assert_eq!(local.pop().map(take), Some(7));
    });
}

#[test]
fn an_item_that_is_taken_back_is_no_thief_s() {
    loom::model(|| {
        let ring = Arc::new(StealQueue::new());
        let thief = {
            let ring = ring.clone();
            thread::spawn(move || ring.steal().steal().map(take))
        };
        // SAFETY: the only owner.
        let local = unsafe { ring.local() };
        let item = boxed(7);
        // SAFETY: fresh, and under loom never freed.
        let place = unsafe { local.offer(item) }.unwrap();
        let is_back = local.take_back(place, item);
        if is_back {
            assert_eq!(take(item), 7);
        }
        assert_eq!(thief.join().unwrap(), (!is_back).then_some(7));
    });
}

#[test]
fn a_slot_that_is_used_again_gives_each_item_once() {
    loom::model(|| {
        let ring = Arc::new(StealQueue::new());
        let thief = {
            let ring = ring.clone();
            thread::spawn(move || steal_all(&ring, 1))
        };
        // SAFETY: the only owner.
        let local = unsafe { ring.local() };
        let (first, second) = (boxed(0), boxed(1));
        // SAFETY: fresh, and under loom never freed.
        let offer = |item| unsafe { local.offer(item) }.unwrap();
        let place = offer(first);
        let mut values = Vec::new();
        if local.take_back(place, first) {
            values.push(take(first));
        }
        offer(second);
        values.extend(std::iter::from_fn(|| local.pop().map(take)));
        values.append(&mut thief.join().unwrap());
        values.sort_unstable();
        assert_eq!(values, [0, 1]);
    });
}
