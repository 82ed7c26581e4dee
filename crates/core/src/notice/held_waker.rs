//! A waker in memory of its own: the address stands for a waiter.

use std::ptr::NonNull;
use std::task::Waker;

use crate::atomic::UnsafeCell;

/// A waker that waits for one event, in memory of its own.
///
/// Its address becomes an id that the future publishes in the awaited object. The party that takes
/// the id out of the object owns this memory: the future, if it leaves, or the claimant of the
/// wait. So no party waits for the other one.
// Aligned, so that three bits of the address may tell kinds of ids apart.
#[repr(align(8))]
#[derive(Debug)]
pub struct HeldWaker(UnsafeCell<Option<Waker>>);

impl HeldWaker {
    /// Moves `waker` to memory of its own.
    pub fn allocate(waker: Waker) -> NonNull<Self> {
        NonNull::from(Box::leak(Box::new(HeldWaker(UnsafeCell::new(Some(waker))))))
    }

    /// Replaces the waker by a clone of `waker`, unless both wake the same task.
    ///
    /// # Safety
    ///
    /// The caller owns `this`.
    pub unsafe fn renew(this: NonNull<Self>, waker: &Waker) {
        // SAFETY: valid, as the caller owns it.
        let cell = unsafe { &this.as_ref().0 };
        // SAFETY: the owner alone has access.
        let is_same =
            cell.with(|held| unsafe { (*held).as_ref() }.is_some_and(|h| h.will_wake(waker)));
        if !is_same {
            // The clone, and the drop of the old one, are code of users: outside the access.
            let new = waker.clone();
            // SAFETY: as above.
            let old = cell.with_mut(|held| unsafe { (*held).replace(new) });
            drop(old);
        }
    }

    /// Frees the memory, and returns the waker.
    ///
    /// # Safety
    ///
    /// The caller owns `this`, and does not use it again.
    pub unsafe fn take(this: NonNull<Self>) -> Waker {
        // SAFETY: `allocate` leaked this box, and the caller, its owner, does not use it again.
        let held = unsafe { Box::from_raw(this.as_ptr()) };
        // SAFETY: the owner alone has access.
        let waker = held.0.with_mut(|waker| unsafe { (*waker).take() });
        waker.expect("held since `allocate`")
    }
}
