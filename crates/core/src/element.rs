//! An element for the tests and models of the queues.

use std::ptr::{self, NonNull};

use crate::list::Linked;
use crate::sync::{AtomicPtr, UnsafeCell};

/// A value at every read of which loom checks that its write is visible.
pub(crate) struct Element {
    link: AtomicPtr<Element>,
    value: UnsafeCell<usize>,
}

// SAFETY: the same field every time, and only the queues store to it.
unsafe impl Linked for Element {
    unsafe fn link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self> {
        // SAFETY: valid, by the contract of `Linked::link`.
        unsafe { &this.as_ref().link }
    }
}

/// A new element, to be handed to [`take`] once.
pub(crate) fn boxed(value: usize) -> NonNull<Element> {
    let link = AtomicPtr::new(ptr::null_mut());
    NonNull::from(Box::leak(Box::new(Element { link, value: UnsafeCell::new(value) })))
}

/// Reads and frees an element that a queue gave out.
pub(crate) fn take(element: NonNull<Element>) -> usize {
    // SAFETY: from `boxed`, and out of a queue, which gives each element out once: that is tested.
    let element = unsafe { Box::from_raw(element.as_ptr()) };
    // SAFETY: nobody writes the value after `boxed`.
    element.value.with(|value| unsafe { *value })
}
