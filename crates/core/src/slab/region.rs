//! Memory that is divided into a header, the words of pages, and pages.

use std::{mem, ptr::NonNull, slice};

use super::{ALIGN, Heap, PAGE};
use crate::atomic::{AtomicU64, Ordering};

/// Bytes of the header, which has a line of its own.
pub(super) const HEADER: usize = 64;
/// Magic number, which changes with the layout of the memory.
const MAGIC: u64 = 0x6461_696b << 32;
/// Largest number of pages that the header can name, beside the magic.
const MOST_PAGES: usize = u32::MAX as usize;
/// The reason for which memory cannot be a [`Heap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The address is not a multiple of [`ALIGN`].
    Misaligned,
    /// The memory has no room for a page.
    TooSmall,
    /// The memory has more pages than the header can name: 4 TiB.
    TooLarge,
    /// The memory has other contents, or a heap of another length or version.
    Foreign,
}

/// Divides memory of a given length; returns the offset of the first page, and the number of pages.
pub(super) fn divide(len: usize) -> Result<(usize, usize), Refused> {
    let all = len.saturating_sub(HEADER) / (PAGE + mem::size_of::<u64>());
    let at = |pages: usize| (HEADER + pages * mem::size_of::<u64>()).next_multiple_of(ALIGN);
    // Rounding up costs less than four pages.
    let pages =
        (all.saturating_sub(ALIGN / PAGE)..=all).rfind(|&pages| at(pages) + pages * PAGE <= len);
    match pages {
        None | Some(0) => Err(Refused::TooSmall),
        Some(MOST_PAGES..) => Err(Refused::TooLarge),
        Some(pages) => Ok((at(pages), pages)),
    }
}

impl<'m> Heap<'m> {
    /// Opens the heap in the `len` bytes from `base` on. Zeroed memory is made one, by one
    /// exchange, so that it does not matter which process comes first, nor which is killed.
    ///
    /// # Errors
    ///
    /// [`Refused`] names the reason.
    ///
    /// # Safety
    ///
    /// For `'m` the memory may be read and written. The bytes before the pages are changed only by
    /// heaps, and by atomic accesses of 8 bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{alloc::{Layout, alloc_zeroed, dealloc}, ptr::NonNull};
    /// use daiko_core::slab::{ALIGN, Caller, Heap};
    ///
    /// let layout = Layout::from_size_align(1 << 20, ALIGN).unwrap();
    /// let base = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
    /// let heap = unsafe { Heap::over(base, layout.size()) }.unwrap();
    ///
    /// let (mut one, mut other) = (Caller::new(heap, 1), Caller::new(heap, 2));
    /// let object = one.alloc(100, 8).unwrap();
    /// unsafe { base.add(object).write_bytes(7, 100) };
    /// assert_eq!(heap.size_of(object), Ok(112));
    /// other.free(object).unwrap();
    /// assert!(other.free(object).is_err());
    /// # unsafe { dealloc(base.as_ptr(), layout) };
    /// ```
    pub unsafe fn over(base: NonNull<u8>, len: usize) -> Result<Self, Refused> {
        if !base.addr().get().is_multiple_of(ALIGN) {
            return Err(Refused::Misaligned);
        }
        let (at, pages) = divide(len)?;
        // SAFETY: inside the memory, aligned, and changed by atomic accesses only, for 'm.
        let header = unsafe { base.cast::<AtomicU64>().as_ref() };
        let formatted = MAGIC | pages as u64;
        // Relaxed: zeros are a heap without objects, so the header publishes nothing.
        let found = header.compare_exchange(0, formatted, Ordering::Relaxed, Ordering::Relaxed);
        if found.is_err_and(|found| found != formatted) {
            return Err(Refused::Foreign);
        }
        // SAFETY: as above; the words end before the first page.
        let words = unsafe { slice::from_raw_parts(base.as_ptr().add(HEADER).cast(), pages) };
        Ok(Self { words, at, open: pages })
    }
}
