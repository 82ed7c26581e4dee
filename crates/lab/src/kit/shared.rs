//! Memory that forked processes share.

use std::marker::PhantomData;
use std::ops::Deref;
use std::slice;

use daiko_sys::Scope;
use daiko_sys::memory::Mapping;

use super::failure::Failure;

/// A type that may lie in memory shared by processes.
///
/// # Safety
/// Zeroed memory is a valid value; references to it may be used by several processes at once, as by
/// several threads; and it holds no address that is valid in one process only.
pub(crate) unsafe trait Zeroed: Sync {}

/// Values, initially all zero, shared with every process that is forked afterwards.
pub(crate) struct ForkShared<T> {
    mapping: Mapping,
    len: usize,
    values: PhantomData<T>,
}

impl<T: Zeroed> ForkShared<T> {
    /// Creates `len` values.
    pub(crate) fn new(len: usize) -> Result<Self, Failure> {
        const { assert!(align_of::<T>() <= 4096, "a mapping begins with a page") };
        // Saturating: more than there is memory, so that the mapping fails.
        let bytes = len.saturating_mul(size_of::<T>());
        let mapping = Mapping::new(bytes, Scope::Shared)
            .map_err(|error| Failure::Limit(error.to_string()))?;
        Ok(Self { mapping, len, values: PhantomData })
    }
}

impl<T: Zeroed> Deref for ForkShared<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping has room for `len` values, is page-aligned and lives as long as
        // `self`. Zeros are valid values, and all changes go through references.
        unsafe { slice::from_raw_parts(self.mapping.start().as_ptr().cast(), self.len) }
    }
}
