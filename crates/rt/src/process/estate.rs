//! What a fiber holds and has lent, where workers are processes: so that others go on when it is lost.
//!
//! It is noted in the call that takes or lends the thing, and struck out in the one that gives it back. A fiber is lost
//! in its own code only, between calls, so that none is seen without the other.

use std::fmt;
use std::ptr::{self, NonNull};

use daiko_core::fiber::Course;

use super::call::Call;
use super::{is_active, is_shared};
use crate::fiber::ControlBlock;

/// Items of a fiber's first room: 200 bytes.
const FIRST: usize = 8;

/// How an object is recovered whose holder is lost; one static per kind of object.
pub struct ItemKind {
    /// Gives the object back, or takes it back, as far as is possible without the destructors of the
    /// fiber, its holder. It is called with the object, the detail and the fiber.
    ///
    /// # Safety
    ///
    /// The object is of this kind and valid, the caller is the fiber that held it, and the item was
    /// removed from its list just now.
    pub recover: unsafe fn(NonNull<()>, *const (), &'static ControlBlock),
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

    /// Recovers the object. A static that is not shared is the dead process's own: the caller's copy
    /// is as it was at the fork.
    ///
    /// # Safety
    ///
    /// The caller is the fiber of the item, which was removed from its list just now.
    unsafe fn recover(self, fiber: &'static ControlBlock) {
        if is_shared(self.object.as_ptr()) {
            // SAFETY: an object that a fiber has borrowed or lent stays as long as its frames, which
            // are still there, or as what these own, which is never dropped; the object of a forgotten
            // guard is there by the contract of `process_workers`.
            unsafe { (self.kind.recover)(self.object, self.detail, fiber) };
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

/// All that a fiber has, what came last at the end. Only the fiber touches it, and who succeeds its worker.
///
/// Budget: to note and to strike out what came last are a look and four stores at most, on lines of the fiber's own. What came
/// first is struck out at the price of what came last, on average.
#[derive(Debug)]
pub struct Estate {
    items: Vec<Item>,
    /// Those before are struck out.
    first: usize,
}

impl Estate {
    fn new() -> Self {
        Estate { items: Vec::with_capacity(FIRST), first: 0 }
    }

    #[inline(always)]
    fn add(&mut self, item: Item) {
        self.items.push(item);
    }

    #[inline(always)]
    fn remove(&mut self, item: Item) {
        match self.items.last() {
            Some(&last) if last == item => _ = self.items.pop(),
            _ => self.remove_slow(item),
        }
    }

    /// Guards are dropped in any order, and forgotten.
    #[cold]
    #[inline(never)]
    fn remove_slow(&mut self, item: Item) {
        if self.items.get(self.first) == Some(&item) {
            self.first += 1;
            // At most as many are moved as were struck out since the last time.
            if self.first >= self.items.len() / 2 {
                self.items.drain(..self.first);
                self.first = 0;
            }
            return;
        }
        let at = self.items.iter().skip(self.first).rposition(|&other| other == item);
        debug_assert!(at.is_some(), "a fiber gives back what it does not have");
        if let Some(at) = at {
            self.items.remove(self.first + at);
        }
    }

    /// Strikes out what came last.
    fn pop(&mut self) -> Option<Item> {
        if self.items.len() > self.first { self.items.pop() } else { None }
    }

    fn clear(&mut self) {
        self.items.clear();
        self.first = 0;
    }
}

impl Call {
    /// Whether what the caller gains is noted.
    #[inline(always)]
    pub fn has_estate(&self) -> bool {
        self.fiber().is_some()
    }

    /// Notes that the caller has `item` from here on.
    #[inline(always)]
    pub fn gains(&self, item: Item) {
        match self.fiber() {
            Some(fiber) => of(fiber).add(item),
            None => self.lasts(),
        }
    }

    /// Strikes out `item`, which the caller has.
    #[inline(always)]
    pub fn parts_with(&self, item: Item) {
        if let Some(fiber) = self.fiber() {
            of(fiber).remove(item);
        }
    }
}

/// Has the caller gain `item` by `take`, in the usual case: a call by a fiber that has room and does not unwind. Otherwise
/// false, as if `take` does not succeed: then nothing has happened.
///
/// A call, as [`call`](super::call()) makes it, takes half as many instructions once more, as it is for all cases.
#[inline(always)]
pub fn gains_quickly(item: Item, take: impl FnOnce() -> bool) -> bool {
    let Some((course, estate)) = enter_quickly() else { return false };
    let len = estate.items.len();
    let gains = len < estate.items.capacity() && take();
    if gains {
        // SAFETY: there is room for one more, which is written.
        unsafe {
            estate.items.as_mut_ptr().add(len).write(item);
            estate.items.set_len(len + 1);
        }
    }
    // It has entered as one that does not unwind.
    let _ = course.leave();
    gains
}

/// Has the caller part with `item` by `give`, if it came last: as [`gains_quickly`].
#[inline(always)]
pub fn parts_quickly(item: Item, give: impl FnOnce() -> bool) -> bool {
    let Some((course, estate)) = enter_quickly() else { return false };
    let (last, before) = (estate.items.last().copied(), estate.items.len().wrapping_sub(1));
    let parts = last == Some(item) && give();
    if parts {
        estate.items.truncate(before);
    }
    // It has entered as one that does not unwind.
    let _ = course.leave();
    parts
}

#[inline(always)]
fn enter_quickly() -> Option<(&'static Course, &'static mut Estate)> {
    if cfg!(debug_assertions) && !is_active() {
        return None;
    }
    let fiber = super::call::fiber()?;
    let mut estate = fiber.aside.estate()?;
    if std::thread::panicking() || !fiber.course.enter(false) {
        return None;
    }
    // SAFETY: as in `of`.
    Some((&fiber.course, unsafe { estate.as_mut() }))
}

/// The estate of `fiber`, the caller. No reference to it is kept while another may be made.
#[inline(always)]
#[allow(clippy::mut_from_ref, reason = "of one thread at a time")]
pub fn of(fiber: &ControlBlock) -> &mut Estate {
    let mut estate = fiber.aside.estate().unwrap_or_else(|| first(fiber));
    // SAFETY: the block keeps it as long as the runtime; only the fiber uses it, and one reference at a time.
    unsafe { estate.as_mut() }
}

#[cold]
#[inline(never)]
fn first(fiber: &ControlBlock) -> NonNull<Estate> {
    fiber.aside.set_estate(Box::new(Estate::new()))
}

/// Forgets what the fiber had that has used the block before: guards that it forgot as well.
pub(crate) fn clear(fiber: &ControlBlock) {
    if let Some(mut estate) = fiber.aside.estate() {
        // SAFETY: as in `of`, of a fiber that is about to be.
        unsafe { estate.as_mut() }.clear();
    }
}

/// Strikes out what came last.
fn newest(fiber: &ControlBlock) -> Option<Item> {
    // SAFETY: as in `of`.
    unsafe { fiber.aside.estate()?.as_mut() }.pop()
}

/// Settles all that `fiber`, the caller, has, what came last first.
///
/// # Safety
///
/// The fiber never goes on in the frames that it has left.
pub(crate) unsafe fn settle(fiber: &'static ControlBlock) {
    while let Some(item) = newest(fiber) {
        // SAFETY: the caller's own, and struck out; for the rest, this function's contract.
        unsafe { item.recover(fiber) };
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
    fn what_is_given_back_in_any_order_is_struck_out_and_nothing_else() {
        let mut estate = Estate::new();
        (0..20).for_each(|count| estate.add(item(count)));
        let odd = (0..20).filter(|count| count % 2 == 1);
        odd.for_each(|count| estate.remove(item(count)));
        let left = estate.items[estate.first..].iter().copied();
        assert!(left.eq((0..20).step_by(2).map(item)));
        (0..20).step_by(2).rev().for_each(|count| estate.remove(item(count)));
        assert_eq!(estate.pop(), None);
    }

    #[test]
    fn what_is_given_back_as_it_came_leaves_no_room_behind() {
        let mut estate = Estate::new();
        estate.add(item(0));
        for count in 1..1000 {
            estate.add(item(count));
            estate.remove(item(count - 1));
        }
        assert!(estate.items.capacity() <= 2 * FIRST);
        assert_eq!([estate.pop(), estate.pop()], [Some(item(999)), None]);
    }

    #[test]
    fn of_two_that_are_equal_one_is_left() {
        let [item, other] = [1, 2].map(item);
        let mut estate = Estate::new();
        [item, other, item].into_iter().for_each(|item| estate.add(item));
        estate.remove(item);
        estate.remove(other);
        assert_eq!([estate.pop(), estate.pop()], [Some(item), None]);
    }
}
