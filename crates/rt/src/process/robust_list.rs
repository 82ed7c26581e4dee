//! The robust list of a fiber: the objects that are recovered if the fiber is lost.

use std::fmt;
use std::ptr::{self, NonNull};

use super::heap::is_shared;
use crate::call::token::InCall;

/// Capacity of a fiber's first list: 200 bytes.
const FIRST: usize = 8;

/// The way to recover an object when its holder is lost; one static per kind of object.
pub struct ItemKind {
    /// Gives the object back, or takes it back, as far as is possible without the destructors of
    /// the fiber, its holder and the caller. It is called with the object and the detail.
    ///
    /// # Safety
    ///
    /// The object is of this kind and valid, the caller is the fiber that held it, and the item was
    /// removed from its list just now.
    pub recover: unsafe fn(InCall<'_>, NonNull<()>, *const ()),
}

/// An object that a fiber holds, or has lent from its frames.
#[derive(Clone, Copy)]
pub struct Item {
    object: NonNull<()>,
    /// A count, or a second address; its kind says which.
    detail: *const (),
    kind: &'static ItemKind,
}

impl Item {
    #[inline(always)]
    pub fn new<T>(object: &T, detail: *const (), kind: &'static ItemKind) -> Self {
        Item { object: NonNull::from(object).cast(), detail, kind }
    }

    /// Recovers the object. A static that is not shared is the dead process's own: the caller's
    /// copy is as it was at the fork.
    ///
    /// # Safety
    ///
    /// The caller is the fiber of the item, which was removed from its list just now.
    pub(super) unsafe fn recover(self, call: InCall<'_>) {
        if is_shared(self.object.as_ptr()) {
            // SAFETY: an object that a fiber has borrowed or lent stays as long as the fiber's
            // frames, which still exist, or as the values in them, which are never dropped; the
            // object of a forgotten guard exists by the contract of `process_workers`.
            unsafe { (self.kind.recover)(call, self.object, self.detail) };
        }
    }
}

impl PartialEq for Item {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.object == other.object && self.detail == other.detail && ptr::eq(self.kind, other.kind)
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}, {:p}", self.object, self.detail)
    }
}

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
    use super::*;

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
