//! Places in a block, as distances from the thread pointer.

use std::ptr;

/// A number of bytes from the thread pointer.
pub(crate) type TlsOffset = isize;

/// Returns the address of the field or thread-local of type `T` at `offset` from a thread pointer.
pub(crate) fn at<T>(pointer: usize, offset: TlsOffset) -> *mut T {
    ptr::with_exposed_provenance_mut(pointer.wrapping_add_signed(offset))
}
