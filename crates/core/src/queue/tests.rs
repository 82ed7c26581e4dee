//! The ring against a plain queue, and against real thieves.

use std::collections::VecDeque;
use std::iter;
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
    /// A thief takes the older half.
    Steal,
    /// A thief takes one.
    StealOne,
    /// The owner takes back the item that was pushed so many steps ago, if it is still there.
    TakeBack(usize),
}

/// The plain queue that a ring is compared with: the positions from the head on, with holes where
/// items were taken back.
#[derive(Default)]
struct Plain(VecDeque<Option<usize>>);

impl Plain {
    fn items(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied().flatten()
    }

    fn pop(&mut self) -> Option<usize> {
        iter::from_fn(|| self.0.pop_front()).flatten().next()
    }

    /// Returns the items of the older half of the positions, as far as `room` reaches. They leave
    /// holes, as a thief does not move the head.
    fn steal(&mut self, room: usize) -> Vec<usize> {
        let holes = self.0.iter().take_while(|item| item.is_none()).count();
        let half = (self.0.len() - holes).div_ceil(2).min(room);
        self.0.iter_mut().skip(holes).take(half).filter_map(Option::take).collect()
    }

    fn steal_one(&mut self) -> Option<usize> {
        self.0.iter_mut().find_map(Option::take)
    }

    /// Removes the item, and the holes that end the queue then.
    fn take_back(&mut self, value: usize) -> bool {
        let Some(item) = self.0.iter_mut().find(|item| **item == Some(value)) else { return false };
        *item = None;
        while self.0.back() == Some(&None) {
            self.0.pop_back();
        }
        true
    }

    /// Appends `value`; returns the older half and `value` instead if there is no room.
    fn push(&mut self, value: usize) -> Vec<usize> {
        if self.0.len() == CAPACITY {
            while self.0.front() == Some(&None) {
                self.0.pop_front();
            }
        }
        if self.0.len() == CAPACITY {
            let older: Vec<_> = (0..CAPACITY / 2).map_while(|_| self.pop()).collect();
            return older.into_iter().chain([value]).collect();
        }
        self.0.push_back(Some(value));
        Vec::new()
    }
}

fn push(queue: &Local<'_, Element>, value: usize) -> Vec<usize> {
    // SAFETY: fresh; freed by `take` after it left the queue.
    match unsafe { queue.push(boxed(value)) } {
        Ok(()) => Vec::new(),
        Err(Full(chain)) => chain.map(take).collect(),
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Push),
        1 => Just(Step::Pop),
        1 => Just(Step::Steal),
        1 => Just(Step::StealOne),
        3 => (0..8usize).prop_map(Step::TakeBack),
    ]
}

proptest! {
    #[test]
    fn behaves_as_a_plain_queue(steps in prop::collection::vec(step(), 0..scaled(1500))) {
        let (mut ring, mut other) = (StealQueue::new(), StealQueue::new());
        let ((local, steal), (thief, _)) = (ring.split(), other.split());
        let (mut queue, mut loot) = (Plain::default(), VecDeque::new());
        // The items that were put in, and their places.
        let mut pushed: Vec<(usize, NonNull<Element>, Place)> = Vec::new();
        for (value, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push => {
                    let (item, place) = (boxed(value), local.next_place());
                    // SAFETY: fresh; freed by `take` after it left the queue.
                    let pushed_out: Vec<_> = match unsafe { local.push(item) } {
                        Ok(()) => {
                            pushed.push((value, item, place));
                            Vec::new()
                        }
                        Err(Full(chain)) => chain.map(take).collect(),
                    };
                    prop_assert_eq!(pushed_out, queue.push(value));
                }
                Step::Pop => prop_assert_eq!(local.pop().map(take), queue.pop()),
                Step::Steal => {
                    let stolen = queue.steal(CAPACITY - loot.len());
                    prop_assert_eq!(steal.steal_into(&thief, |_, _| ()), !stolen.is_empty());
                    loot.extend(stolen);
                }
                Step::StealOne => prop_assert_eq!(steal.steal().map(take), queue.steal_one()),
                Step::TakeBack(ago) => {
                    let Some(&(value, item, place)) = pushed.iter().nth_back(ago) else { continue };
                    // The memory of an item that has left may be another item's.
                    if queue.items().any(|queued| queued == value) {
                        prop_assert!(queue.take_back(value) && local.take_back(place, item));
                        prop_assert!(!local.take_back(place, item));
                        prop_assert_eq!(take(item), value);
                    }
                }
            }
            prop_assert_eq!(local.len(), queue.items().count());
            let is_empty = queue.items().next().is_none();
            prop_assert_eq!((local.is_empty(), steal.is_empty()), (is_empty, is_empty));
            prop_assert_eq!(thief.len(), loot.len());
            prop_assert_eq!(steal.peek(), local.peek().next());
        }
        let seen: Vec<_> = local.peek().collect();
        let left: Vec<_> = iter::from_fn(|| local.pop()).collect();
        prop_assert_eq!(seen, left.clone());
        prop_assert!(left.into_iter().map(take).eq(queue.items()));
        prop_assert!(iter::from_fn(|| thief.pop().map(take)).eq(loot));
    }
}

#[test]
fn a_stolen_item_is_found_at_its_new_place_and_not_at_the_old_one() {
    let (mut ring, mut other) = (StealQueue::new(), StealQueue::new());
    let ((local, steal), (thief, _)) = (ring.split(), other.split());
    let (first, second) = (boxed(1), boxed(2));
    // SAFETY: fresh; freed by `take` after they left the queues.
    let places = [first, second].map(|item| unsafe { local.offer(item) }.unwrap());
    let noted = Cell::new(None);
    assert!(steal.steal_into(&thief, |item, place| noted.set(Some((item, place)))));
    assert_eq!(noted.get(), Some((first, Place::at(0))));
    assert!(!local.take_back(places[0], first) && local.take_back(places[1], second));
    assert!(!thief.take_back(Place::at(1), first) && thief.take_back(Place::at(0), first));
    assert_eq!([first, second].map(take), [1, 2]);
    assert!(local.is_empty() && thief.is_empty());
}

#[test]
fn an_item_taken_back_from_the_middle_leaves_the_others_in_order() {
    let mut ring = StealQueue::new();
    let (local, steal) = ring.split();
    let items = [0, 1, 2, 3].map(boxed);
    // SAFETY: fresh; freed by `take` after they left the queue.
    let places = items.map(|item| unsafe { local.offer(item) }.unwrap());
    assert!(local.take_back(places[1], items[1]) && local.take_back(places[3], items[3]));
    assert_eq!(local.next_place(), places[3], "the end is given up");
    assert_eq!(steal.steal(), Some(items[0]));
    assert_eq!((local.pop(), local.pop()), (Some(items[2]), None));
    items.into_iter().for_each(|item| _ = take(item));
}

#[test]
fn a_full_ring_refuses_an_offer_until_its_oldest_slot_is_free() {
    let mut ring = StealQueue::new();
    let (local, steal) = ring.split();
    let items: Vec<_> = (0..CAPACITY).map(boxed).collect();
    // SAFETY: fresh; freed by `take` after they left the queue, or were refused.
    let offer = |item| unsafe { local.offer(item) };
    items.iter().for_each(|item| assert!(offer(*item).is_ok()));
    let more = boxed(CAPACITY);
    assert_eq!(offer(more), Err(RingIsFull));
    assert!(local.take_back(Place::at(7), items[7]));
    assert_eq!(offer(more), Err(RingIsFull), "the free slot is not at an end");
    assert_eq!(steal.steal(), Some(items[0]));
    assert_eq!(offer(more), Ok(Place::at(0)));
    iter::from_fn(|| local.pop()).chain([items[0], items[7]]).for_each(|item| _ = take(item));
}

#[test]
fn nothing_is_stolen_from_oneself() {
    let mut ring = StealQueue::new();
    let (local, steal) = ring.split();
    assert!(push(&local, 1).is_empty());
    assert!(!steal.steal_into(&local, |_, _| ()));
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
            ring.steal().steal_into(&local, |_, _| ());
            values.extend(iter::from_fn(|| local.pop().map(take)));
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
        values.extend(iter::from_fn(|| local.pop().map(take)));
        report(values);
    });
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..FIBERS));
}
