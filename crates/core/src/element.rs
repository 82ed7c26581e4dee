//! An element for the tests and models of the queues.

use std::ptr::{self, NonNull};

use crate::atomic::{AtomicPtr, UnsafeCell};
use crate::list::Linked;

/// A test element with a value that can be taken once. Loom checks that the taker sees the store.
pub(crate) struct Element {
    link: AtomicPtr<Element>,
    value: UnsafeCell<Option<usize>>,
}

// SAFETY: the same field every time, and only the queues store to it.
unsafe impl Linked for Element {
    unsafe fn link<'a>(this: NonNull<Self>) -> &'a AtomicPtr<Self> {
        // SAFETY: valid, by the contract of `Linked::link`.
        unsafe { &this.as_ref().link }
    }
}

/// Creates an element, to be handed to [`take`] once.
pub(crate) fn boxed(value: usize) -> NonNull<Element> {
    let link = AtomicPtr::new(ptr::null_mut());
    NonNull::from(Box::leak(Box::new(Element { link, value: UnsafeCell::new(Some(value)) })))
}

/// Returns the value of an element that is queued.
#[cfg(loom)]
pub(crate) fn look(element: NonNull<Element>) -> usize {
    // SAFETY: from `boxed`, and under loom never freed.
    let cell = unsafe { &element.as_ref().value };
    // SAFETY: no thread takes it meanwhile: loom checks that.
    cell.with(|value| unsafe { *value }).expect("not taken yet")
}

/// Takes the value of an element that a queue gave out, and frees the element; not under loom,
/// where a weakened queue may give out an element twice, and has to be caught at it.
pub(crate) fn take(element: NonNull<Element>) -> usize {
    // SAFETY: from `boxed`, and freed below only.
    let cell = unsafe { &element.as_ref().value };
    // SAFETY: a queue gives an element to one thread, once: the tests check that.
    let value = cell.with_mut(|value| unsafe { (*value).take() });
    if cfg!(not(loom)) {
        // SAFETY: from `boxed`, and no queue has it any more.
        drop(unsafe { Box::from_raw(element.as_ptr()) });
    }
    value.expect("an element comes out once")
}
