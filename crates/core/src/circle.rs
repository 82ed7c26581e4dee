//! Circular doubly linked lists through fields of their nodes, guarded by a lock of the user.
//!
//! Any one node stands for its list, so that the head of a list takes one word.

use std::ptr::{self, NonNull};

use crate::atomic::UnsafeCell;

pub(crate) struct Links<N> {
    next: UnsafeCell<*const N>,
    prev: UnsafeCell<*const N>,
}

impl<N> Links<N> {
    pub(crate) fn new() -> Self {
        Self { next: UnsafeCell::new(ptr::null()), prev: UnsafeCell::new(ptr::null()) }
    }

    /// Makes loom fail unless the caller may reuse the node's memory.
    #[cfg(all(test, loom))]
    pub(crate) fn reclaim(&self) {
        self.next.with_mut(|_| ());
        self.prev.with_mut(|_| ());
    }
}

/// A node of a circular list.
///
/// # Safety
///
/// `links` returns the same field every time, and only this module writes it.
pub(crate) unsafe trait Circular: Sized {
    fn links(&self) -> &Links<Self>;
}

/// Makes `node` the last before `first`, or a list of its own.
///
/// # Safety
///
/// `node` is alive, as are all nodes of `first`'s list, until removed; `node` is in no list; the
/// caller holds the lock that guards the list.
pub(crate) unsafe fn insert<N: Circular>(first: Option<NonNull<N>>, node: NonNull<N>) {
    let first = first.unwrap_or(node);
    // SAFETY: all three are alive, and the caller holds the lock: this function's contract.
    unsafe {
        let last = if first == node { node } else { neighbour(first, |links| &links.prev) };
        join(last, node);
        join(node, first);
    }
}

/// Takes `node` out and returns its successor, if any node is left.
///
/// # Safety
///
/// `node` is in a list of which all nodes are alive; the caller holds the lock that guards it.
pub(crate) unsafe fn remove<N: Circular>(node: NonNull<N>) -> Option<NonNull<N>> {
    // SAFETY: all nodes of the list are alive, and the caller holds the lock: this function's
    // contract.
    unsafe {
        let next = neighbour(node, |links| &links.next);
        if next == node {
            return None;
        }
        join(neighbour(node, |links| &links.prev), next);
        Some(next)
    }
}

/// Returns the node after `node`.
///
/// # Safety
///
/// As for [`remove`].
pub(crate) unsafe fn next<N: Circular>(node: NonNull<N>) -> NonNull<N> {
    // SAFETY: passed on to the caller.
    unsafe { neighbour(node, |links| &links.next) }
}

/// Returns the node that a link of `node` names.
///
/// # Safety
///
/// As for [`remove`].
unsafe fn neighbour<N: Circular>(
    node: NonNull<N>,
    link: impl FnOnce(&Links<N>) -> &UnsafeCell<*const N>,
) -> NonNull<N> {
    // SAFETY: the node is alive, and the links of listed nodes are not null; the lock keeps writers
    // out.
    unsafe { link(node.as_ref().links()).with(|link| NonNull::new_unchecked((*link).cast_mut())) }
}

/// Makes `right` follow `left`.
///
/// # Safety
///
/// Both are alive, and the caller holds the lock that guards their list.
unsafe fn join<N: Circular>(left: NonNull<N>, right: NonNull<N>) {
    // SAFETY: both are alive, and the lock keeps readers and writers out.
    unsafe {
        left.as_ref().links().next.with_mut(|next| *next = right.as_ptr());
        right.as_ref().links().prev.with_mut(|prev| *prev = left.as_ptr());
    }
}
