//! The robust list of a fiber: the objects that are recovered if the fiber is lost.

use crate::call::item::Item;

/// Capacity of a fiber's first list: 200 bytes.
const FIRST: usize = 8;

/// The items of a fiber, the newest last. Only the fiber touches the list, and the successor of its
/// worker.
///
/// Budget: to add an item, and to remove the newest, take a load and four stores at most, on lines
/// of the fiber's own. To remove the oldest costs as much on average.
#[derive(Debug)]
pub(crate) struct RobustList {
    pub(super) items: Vec<Item>,
    /// The items before this index are removed.
    first: usize,
}

impl RobustList {
    pub(super) fn new() -> Self {
        RobustList { items: Vec::with_capacity(FIRST), first: 0 }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, item: Item) {
        self.items.push(item);
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, item: Item) {
        match self.items.last() {
            Some(&last) if last == item => _ = self.items.pop(),
            _ => self.remove_slow(item),
        }
    }

    /// Removes an item that is not the newest: guards are dropped in any order, and forgotten.
    #[cold]
    #[inline(never)]
    fn remove_slow(&mut self, item: Item) {
        if self.items.get(self.first) == Some(&item) {
            self.first += 1;
            // At most as many items move as were removed since the last time.
            if self.first >= self.items.len() / 2 {
                self.items.drain(..self.first);
                self.first = 0;
            }
            return;
        }
        let at = self.items.iter().skip(self.first).rposition(|&other| other == item);
        debug_assert!(at.is_some(), "a fiber gives back an object that it does not hold");
        if let Some(at) = at {
            self.items.remove(self.first + at);
        }
    }

    /// Removes the newest item.
    pub(super) fn pop(&mut self) -> Option<Item> {
        if self.items.len() > self.first { self.items.pop() } else { None }
    }

    /// Forgets all items: guards that the fiber before has forgotten.
    pub(crate) fn clear(&mut self) {
        self.items.clear();
        self.first = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::call::item::ItemKind;

    static NOTHING: ItemKind = ItemKind { recover: |_, _, _| {} };

    fn item(detail: usize) -> Item {
        Item::new(&NOTHING, ptr::without_provenance(detail), &NOTHING)
    }

    #[test]
    fn items_given_back_in_any_order_are_removed_and_no_others() {
        let mut list = RobustList::new();
        (0..20).for_each(|count| list.add(item(count)));
        let odd = (0..20).filter(|count| count % 2 == 1);
        odd.for_each(|count| list.remove(item(count)));
        let left = list.items[list.first..].iter().copied();
        assert!(left.eq((0..20).step_by(2).map(item)));
        (0..20).step_by(2).rev().for_each(|count| list.remove(item(count)));
        assert_eq!(list.pop(), None);
    }

    #[test]
    fn items_given_back_in_order_leave_no_room_behind() {
        let mut list = RobustList::new();
        list.add(item(0));
        for count in 1..1000 {
            list.add(item(count));
            list.remove(item(count - 1));
        }
        assert!(list.items.capacity() <= 2 * FIRST);
        assert_eq!([list.pop(), list.pop()], [Some(item(999)), None]);
    }

    #[test]
    fn of_two_that_are_equal_one_is_left() {
        let [item, other] = [1, 2].map(item);
        let mut list = RobustList::new();
        [item, other, item].into_iter().for_each(|item| list.add(item));
        list.remove(item);
        list.remove(other);
        assert_eq!([list.pop(), list.pop()], [Some(item), None]);
    }
}
