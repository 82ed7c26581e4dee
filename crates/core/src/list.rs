//! Intrusive links: lists of fibers without an allocation.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use crate::atomic::{AtomicPtr, Ordering};

/// A type with room for one link, so that it can be in one list at a time.
///
/// # Safety
///
/// `link` must return the same field at every call, and nothing but the lists of this crate may
/// write it while the object is in one of them.
pub unsafe trait Linked: Sized {
    /// Returns the link field of `this`.
    ///
    /// # Safety
    ///
    /// `this` must be valid for the lifetime that the caller chooses.
    unsafe fn link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self>;
}

/// A first-in, first-out list that one thread owns.
///
/// Links are written relaxed: a thread that hands a list to another one publishes it by other
/// means.
pub struct Fifo<T: Linked> {
    head: *mut T,
    tail: *mut T,
    owned: PhantomData<*mut T>,
}

impl<T: Linked> Fifo<T> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Fifo { head: ptr::null_mut(), tail: ptr::null_mut(), owned: PhantomData }
    }

    /// Returns true if the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// Returns the oldest item.
    #[inline]
    pub fn first(&self) -> Option<NonNull<T>> {
        NonNull::new(self.head)
    }

    /// Appends `item`.
    ///
    /// # Safety
    ///
    /// `item` must be in no list, and stay valid while it is in this one, or in another one to
    /// which this one was [appended](Self::append).
    #[inline]
    pub unsafe fn push(&mut self, item: NonNull<T>) {
        // SAFETY: `item` is valid, by this function's contract.
        unsafe { T::link(item) }.store(ptr::null_mut(), Ordering::Relaxed);
        match NonNull::new(self.tail) {
            // SAFETY: an item of this list is valid, by the contract under which it was pushed.
            Some(tail) => unsafe { T::link(tail) }.store(item.as_ptr(), Ordering::Relaxed),
            None => self.head = item.as_ptr(),
        }
        self.tail = item.as_ptr();
    }

    /// Puts `item` before all other items.
    ///
    /// # Safety
    ///
    /// As for [`push`](Self::push).
    #[inline]
    pub unsafe fn push_front(&mut self, item: NonNull<T>) {
        // SAFETY: `item` is valid, by this function's contract.
        unsafe { T::link(item) }.store(self.head, Ordering::Relaxed);
        if self.head.is_null() {
            self.tail = item.as_ptr();
        }
        self.head = item.as_ptr();
    }

    /// Takes the oldest item.
    #[inline]
    pub fn pop(&mut self) -> Option<NonNull<T>> {
        let item = NonNull::new(self.head)?;
        // SAFETY: an item of this list is valid, by the contract under which it was pushed.
        self.head = unsafe { T::link(item) }.load(Ordering::Relaxed);
        if self.head.is_null() {
            self.tail = ptr::null_mut();
        }
        Some(item)
    }

    /// Returns the items, from the oldest on.
    pub fn iter(&self) -> impl Iterator<Item = NonNull<T>> {
        let mut next = self.head;
        std::iter::from_fn(move || {
            let item = NonNull::new(next)?;
            // SAFETY: an item of this list is valid, by the contract under which it was pushed; the
            // borrow keeps it in.
            next = unsafe { T::link(item) }.load(Ordering::Relaxed);
            Some(item)
        })
    }

    /// Takes the item behind the first `before` items, and calls `pass` with each of these. Returns
    /// `None` if there are no more items than that.
    #[inline]
    pub fn pop_behind(
        &mut self,
        before: usize,
        pass: impl FnMut(&NonNull<T>),
    ) -> Option<NonNull<T>> {
        let last = self.iter().take(before).inspect(pass).last();
        let Some(previous) = last else { return self.pop() };
        // SAFETY: items of this list are valid, by the contract under which they were pushed.
        let link = unsafe { T::link(previous) };
        let item = NonNull::new(link.load(Ordering::Relaxed))?;
        // SAFETY: as above.
        let next = unsafe { T::link(item) }.load(Ordering::Relaxed);
        link.store(next, Ordering::Relaxed);
        if next.is_null() {
            self.tail = previous.as_ptr();
        }
        Some(item)
    }

    /// Appends all of `other`, which becomes empty.
    pub fn append(&mut self, other: &mut Self) {
        match NonNull::new(self.tail) {
            None => self.head = other.head,
            // SAFETY: an item of this list is valid, by the contract under which it was pushed.
            Some(tail) => unsafe { T::link(tail) }.store(other.head, Ordering::Relaxed),
        }
        if !other.tail.is_null() {
            self.tail = other.tail;
        }
        *other = Self::new();
    }
}

impl<T: Linked> Default for Fifo<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Linked> Iterator for Fifo<T> {
    type Item = NonNull<T>;

    fn next(&mut self) -> Option<NonNull<T>> {
        self.pop()
    }
}

/// A [`Fifo`] that counts, for items that one queue hands to another.
#[must_use = "dropping a chain forgets its items"]
pub struct Chain<T: Linked> {
    items: Fifo<T>,
    len: usize,
}

impl<T: Linked> Chain<T> {
    /// Creates an empty chain.
    pub const fn new() -> Self {
        Chain { items: Fifo::new(), len: 0 }
    }

    /// Returns the number of items.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the chain is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends `item`.
    ///
    /// # Safety
    ///
    /// As for [`Fifo::push`], also after the chain was moved to a queue.
    pub unsafe fn push(&mut self, item: NonNull<T>) {
        // SAFETY: passed on to the caller.
        unsafe { self.items.push(item) };
        self.len += 1;
    }

    /// Takes the oldest item.
    pub fn pop(&mut self) -> Option<NonNull<T>> {
        let item = self.items.pop()?;
        self.len -= 1;
        Some(item)
    }

    /// Appends all of `other`.
    pub fn append(&mut self, mut other: Self) {
        self.items.append(&mut other.items);
        self.len += other.len;
    }
}

impl<T: Linked> Default for Chain<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Linked> Iterator for Chain<T> {
    type Item = NonNull<T>;

    fn next(&mut self) -> Option<NonNull<T>> {
        self.pop()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}

/// The outcome of an attempt to take an entry out of a list of waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the caller that unlinks an entry owes its waiter the wake"]
pub enum Unlinked {
    /// The caller took it out: no other thread wakes this waiter for it.
    Mine,
    /// Another thread took it out before, and wakes the waiter once.
    AlreadyGone,
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    struct Item {
        link: AtomicPtr<Item>,
        value: u32,
    }

    // SAFETY: `link` is one field that only the lists write.
    unsafe impl Linked for Item {
        unsafe fn link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self> {
            // SAFETY: valid, by the contract of `Linked::link`.
            unsafe { &this.as_ref().link }
        }
    }

    fn list(values: &[u32]) -> Fifo<Item> {
        let mut list = Fifo::new();
        for &value in values {
            let item = Box::leak(Box::new(Item { link: AtomicPtr::default(), value }));
            // SAFETY: the item is new and leaked until `drain`.
            unsafe { list.push(NonNull::from(item)) };
        }
        list
    }

    fn drain(list: Fifo<Item>) -> Vec<u32> {
        // SAFETY: each item was leaked by `list` and leaves the list just once.
        list.map(|item| unsafe { Box::from_raw(item.as_ptr()) }.value).collect()
    }

    #[test]
    fn items_leave_in_the_order_they_came() {
        assert_eq!(drain(list(&[1, 2, 3])), [1, 2, 3]);
    }

    #[test]
    fn append_keeps_the_order_and_empties_the_other() {
        for (left, right) in [(vec![1, 2], vec![3, 4]), (vec![], vec![1]), (vec![1], vec![])] {
            let (mut a, mut b) = (list(&left), list(&right));
            a.append(&mut b);
            assert!(b.is_empty());
            assert_eq!(drain(a), [left, right].concat());
        }
    }

    #[test]
    fn an_item_is_taken_from_behind_others_which_stay_in_order() {
        for before in 0..4 {
            let mut all = list(&[0, 1, 2, 3]);
            assert_eq!(all.iter().count(), 4);
            let mut passed = Vec::new();
            // SAFETY: in the list, and so leaked still.
            let pass = |item: &NonNull<Item>| passed.push(unsafe { item.as_ref() }.value);
            let one = all.pop_behind(before, pass).unwrap();
            assert_eq!(passed, (0..before as u32).collect::<Vec<_>>());
            all.append(&mut list(&[4]));
            // SAFETY: leaked by `list`, and in no list any more.
            assert_eq!(unsafe { Box::from_raw(one.as_ptr()) }.value, before as u32);
            assert!(all.pop_behind(4, |_| ()).is_none());
            let left: Vec<_> = (0..5).filter(|value| *value != before as u32).collect();
            assert_eq!(drain(all), left);
        }
    }

    #[test]
    fn push_front_comes_first_and_push_still_last() {
        let mut all = list(&[]);
        for mut one in [list(&[2]), list(&[1])] {
            // SAFETY: just popped, so in no list.
            unsafe { all.push_front(one.pop().unwrap()) };
        }
        all.append(&mut list(&[3]));
        assert_eq!(drain(all), [1, 2, 3]);
    }
}
