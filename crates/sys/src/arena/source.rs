//! Memory of an arena that somebody else hands out.

use std::alloc::Layout;
use std::ptr::NonNull;

use super::pages::zero;
use crate::memory::{MemoryError, page_size, remove_guards, whole_pages};

/// An allocator that several processes share, from which an arena may take all that it hands out.
///
/// # Safety
///
/// What [`alloc`](Self::alloc) returns is for all processes the same memory, at the same address, in one or several
/// mappings shared by them; it is used by nobody else until it is freed.
pub unsafe trait Source: Sync {
    /// Uninitialised memory, or none if there is no room.
    fn alloc(&self, layout: Layout) -> Option<NonNull<u8>>;

    /// Takes memory back, in whichever process it was allocated.
    ///
    /// # Safety
    ///
    /// `memory` comes from [`alloc`](Self::alloc) with the same `layout`; of whole pages the alignment may be another,
    /// but no less than a page. It has not been freed, and is not used any more.
    unsafe fn free(&self, memory: NonNull<u8>, layout: Layout);
}

/// As `Pages::map`.
pub(super) fn map(
    source: &dyn Source,
    bytes: usize,
    align: usize,
) -> Result<(NonNull<u8>, usize), MemoryError> {
    let refused = MemoryError::Reservation { bytes };
    let len = whole_pages(bytes.max(1)).ok_or(refused)?;
    let layout = Layout::from_size_align(len, align.max(page_size())).map_err(|_| refused)?;
    let start = source.alloc(layout).ok_or(refused)?;
    // SAFETY: nobody else uses these pages, which may have been others' before; they come without guards.
    unsafe { zero(start, len) };
    Ok((start, len))
}

/// As `Pages::unmap`.
///
/// # Safety
///
/// As for `Pages::unmap`; the pages come from [`map`] of this source.
pub(super) unsafe fn unmap(source: &dyn Source, start: NonNull<u8>, bytes: usize) {
    let len = whole_pages(bytes.max(1)).expect("it was mapped");
    let layout = Layout::from_size_align(len, page_size()).expect("it was mapped");
    // SAFETY: the caller gives these pages up. With guards that stay they are lost.
    unsafe {
        if remove_guards(start, len).is_ok() {
            source.free(start, layout);
        }
    }
}
