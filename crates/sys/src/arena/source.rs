//! Arena memory that comes from an external allocator.

use std::alloc::Layout;
use std::ptr::NonNull;

use super::pages::zero;
use crate::memory::{MemoryError, page_size, remove_guards, whole_pages};

/// An allocator shared by several processes, from which an arena may take all its memory.
///
/// # Safety
///
/// The memory that [`alloc`](Self::alloc) returns is the same memory at the same address in all
/// processes, in one or several shared mappings, and has no other user until it is freed.
pub unsafe trait MemorySource: Sync {
    /// Allocates uninitialised memory. Returns `None` if there is no room.
    fn alloc(&self, layout: Layout) -> Option<NonNull<u8>>;

    /// Frees memory, in any of the processes.
    ///
    /// # Safety
    ///
    /// `memory` comes from [`alloc`](Self::alloc) with the same `layout`, except that whole pages
    /// may be freed with another alignment of at least a page. It has not been freed and is not
    /// used any more.
    unsafe fn free(&self, memory: NonNull<u8>, layout: Layout);
}

/// Implements `Pages::map` for a lent arena.
pub(super) fn map(
    source: &dyn MemorySource,
    bytes: usize,
    align: usize,
) -> Result<(NonNull<u8>, usize), MemoryError> {
    let refused = MemoryError::Reservation { bytes };
    let len = whole_pages(bytes.max(1)).ok_or(refused)?;
    let layout = Layout::from_size_align(len, align.max(page_size())).map_err(|_| refused)?;
    let start = source.alloc(layout).ok_or(refused)?;
    // SAFETY: the pages have no other user. An earlier user may have left contents, but no guards.
    unsafe { zero(start, len) };
    Ok((start, len))
}

/// Implements `Pages::unmap` for a lent arena.
///
/// # Safety
///
/// The conditions of `Pages::unmap`; the pages come from [`map`] of this source.
pub(super) unsafe fn unmap(source: &dyn MemorySource, start: NonNull<u8>, bytes: usize) {
    let len = whole_pages(bytes.max(1)).expect("it was mapped");
    let layout = Layout::from_size_align(len, page_size()).expect("it was mapped");
    // SAFETY: the caller gives these pages up. Pages that keep their guards are lost.
    unsafe {
        if remove_guards(start, len).is_ok() {
            source.free(start, layout);
        }
    }
}
