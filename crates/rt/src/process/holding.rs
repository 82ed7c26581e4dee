//! Entering and removing the objects that a fiber holds or has lent, where workers are processes:
//! other fibers go on when it is lost.
//!
//! It is noted in the call that takes or lends the thing, and removed in the call that gives it
//! back. A fiber is lost in its own code only, between calls, so that none is seen without the
//! other.

use std::ptr::NonNull;

use daiko_core::fiber::ExecMode;

use super::heap::is_shared;
use super::mode::is_active;
use super::robust_list::RobustList;
use crate::call::item::Item;
use crate::call::{self, Call, InCall};
use crate::fiber::ControlBlock;

impl Call {
    /// Returns true if items of the caller are noted.
    #[inline(always)]
    pub fn has_robust_list(&self) -> bool {
        self.fiber().is_some()
    }

    /// Notes that the caller has `item` from here on.
    #[inline(always)]
    pub fn add(&self, item: Item) {
        match self.fiber() {
            Some(fiber) => of(fiber).add(item),
            None => self.lasts(),
        }
    }

    /// Removes `item`, which the caller has.
    #[inline(always)]
    pub fn remove(&self, item: Item) {
        if let Some(fiber) = self.fiber() {
            of(fiber).remove(item);
        }
    }

    /// Notes `item` and calls `take`, in the usual case: a section of a fiber that has room and
    /// does not unwind. Returns false in other cases, or if `take` does; then nothing has happened.
    ///
    /// A [`Call`] takes half as many instructions more, because it handles all cases.
    ///
    /// # Safety
    ///
    /// `take` is a few atomic operations: it neither unwinds nor uses this crate.
    #[inline(always)]
    pub unsafe fn add_quickly(item: Item, take: impl FnOnce() -> bool) -> bool {
        let Some((exec_mode, list)) = enter_quickly() else { return false };
        let len = list.items.len();
        let gains = len < list.items.capacity() && take();
        if gains {
            // SAFETY: there is room for one more, which is written.
            unsafe {
                list.items.as_mut_ptr().add(len).write(item);
                list.items.set_len(len + 1);
            }
        }
        // The fiber has entered the section without an unwinding.
        let _ = exec_mode.leave();
        gains
    }

    /// Removes `item` and calls `give`, if it came last: as
    /// [`add_quickly`](Self::add_quickly).
    ///
    /// # Safety
    ///
    /// `give` is as `take` of [`add_quickly`](Self::add_quickly).
    #[inline(always)]
    pub unsafe fn remove_quickly(item: Item, give: impl FnOnce() -> bool) -> bool {
        let Some((exec_mode, list)) = enter_quickly() else { return false };
        let (last, before) = (list.items.last().copied(), list.items.len().wrapping_sub(1));
        let parts = last == Some(item) && give();
        if parts {
            list.items.truncate(before);
        }
        // The fiber has entered the section without an unwinding.
        let _ = exec_mode.leave();
        parts
    }
}

#[inline(always)]
fn enter_quickly() -> Option<(&'static ExecMode, &'static mut RobustList)> {
    if cfg!(debug_assertions) && !is_active() {
        return None;
    }
    let fiber = call::fiber()?;
    let mut list = fiber.robust_list.get()?;
    if std::thread::panicking() || !fiber.exec_mode.enter(false) {
        return None;
    }
    // SAFETY: as in `of`.
    Some((&fiber.exec_mode, unsafe { list.as_mut() }))
}

/// Returns the robust list of `fiber`, the caller. No reference to it is kept while another may be
/// made.
#[inline(always)]
#[allow(clippy::mut_from_ref, reason = "of one thread at a time")]
pub(super) fn of(fiber: &ControlBlock) -> &mut RobustList {
    let mut list = fiber.robust_list.get().unwrap_or_else(|| first(fiber));
    // SAFETY: the block keeps the list as long as the runtime; only the fiber uses it, with one
    // reference at a time.
    unsafe { list.as_mut() }
}

#[cold]
#[inline(never)]
fn first(fiber: &ControlBlock) -> NonNull<RobustList> {
    fiber.robust_list.set(Box::new(RobustList::new()))
}

/// Removes the newest item.
fn newest(fiber: &ControlBlock) -> Option<Item> {
    // SAFETY: as in `of`.
    unsafe { fiber.robust_list.get()?.as_mut() }.pop()
}

/// Recovers all items of `fiber`, the caller, the newest first.
///
/// # Safety
///
/// The fiber never goes on in the frames that it has left.
pub(crate) unsafe fn recover_all(call: InCall<'_>, fiber: &ControlBlock) {
    while let Some(item) = newest(fiber) {
        // A static that is not shared is the dead process's own: the caller's copy is as it was at
        // the fork.
        if is_shared(item.object()) {
            // SAFETY: an object that a fiber has borrowed or lent stays as long as the fiber's
            // frames, which still exist, or as the values in them, which are never dropped; the
            // object of a forgotten guard exists by the contract of `process_workers`. The item is
            // the caller's own, and removed.
            unsafe { item.recover(call) };
        }
    }
}
