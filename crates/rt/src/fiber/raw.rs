//! Handles of fibers as pointers, for the C library.
//!
//! Such a pointer stands for one reference, as a [`Fiber`] does, but has no room for the worker
//! that a handle remembers. A handle that has sent inline messages is counted as such before it
//! becomes a pointer.

use std::mem::{self, ManuallyDrop};
use std::ptr::{self, NonNull};

use daiko_core::fiber::{ByExchange, Plain, Transition};

use super::{ControlBlock, Fiber, JoinHandle};
use crate::call::InCall;
use crate::worker;

impl ControlBlock {
    /// Forgets that the fiber, the caller, was cancelled; returns true if it was. For code that is
    /// not unwound by a cancel.
    pub fn clear_cancel(&self) -> bool {
        let was_kept = match self.is_migratable() {
            true => self.state.forget_cancel::<ByExchange>(),
            false => self.state.forget_cancel::<Plain>(),
        };
        self.flags.clear_cancel() | was_kept
    }

    /// Unparks the fiber if it belongs to the caller's worker; returns false if not. No call of the
    /// system that it makes can fail, so that `errno` stays.
    #[inline(always)]
    #[must_use]
    pub fn unpark_here(&self) -> bool {
        let deliver =
            |call: InCall<'_>| self.deliver_local(call, worker::current(), Transition::Unpark);
        crate::in_call!(|call| deliver(call))
    }
}

impl Fiber {
    /// Returns the reference as a pointer, to give back by [`from_raw`](Self::from_raw).
    #[doc(hidden)]
    #[inline]
    pub fn into_raw(mut self) -> NonNull<ControlBlock> {
        let block = NonNull::from(self.block());
        if self.home.is_known() {
            // The drop records that an unpark may be under way; the new reference stays.
            self.block().retain();
            drop(self);
        } else {
            mem::forget(self);
        }
        block
    }

    /// Takes back a reference that was a pointer.
    ///
    /// # Safety
    ///
    /// 1. `block` comes from [`into_raw`](Self::into_raw),
    /// 2. and its reference is not used again, unless the handle becomes a pointer again.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn from_raw(block: NonNull<ControlBlock>) -> Fiber {
        Fiber::from_block(block)
    }

    /// Calls `use_it` with the handle of a reference that stays a pointer.
    ///
    /// # Safety
    ///
    /// `block` comes from [`into_raw`](Self::into_raw), and keeps its reference during the call.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn with_raw<R>(block: NonNull<ControlBlock>, use_it: impl FnOnce(&Fiber) -> R) -> R {
        let fiber = ManuallyDrop::new(Fiber::from_block(block));
        let result = use_it(&fiber);
        let _ = ManuallyDrop::into_inner(fiber).into_raw();
        result
    }

    /// Makes the fiber end its waits as cancelled: see [`JoinHandle::cancel`].
    #[doc(hidden)]
    pub fn cancel_any(&self) {
        self.cancel();
    }
}

impl<T> JoinHandle<T> {
    /// Returns the reference without the claim to the result, which stays with the fiber.
    #[doc(hidden)]
    pub fn into_fiber(self) -> Fiber {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the fiber is read once.
        unsafe { ptr::read(this.fiber()) }
    }

    /// Makes the handle of a fiber again.
    ///
    /// # Safety
    ///
    /// 1. The fiber was taken out of a handle of this type,
    /// 2. and no other handle was made of it since.
    #[doc(hidden)]
    pub unsafe fn from_fiber(fiber: Fiber) -> JoinHandle<T> {
        JoinHandle::new(fiber)
    }
}
