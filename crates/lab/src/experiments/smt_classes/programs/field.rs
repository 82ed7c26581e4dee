//! The memory that programs work on.

use std::io;

use daiko_sys::{Scope, memory::Mapping};

/// Beyond all caches of machines of today, but for the largest; less in tests, which share the machine with others.
pub(super) const FAR: usize = if cfg!(test) { 64 << 20 } else { 256 << 20 };
/// Within the second cache.
pub(super) const NEAR: usize = 256 << 10;
/// A line of the caches.
pub(super) const LINE: usize = 64;

/// Words that are there from the beginning.
pub(super) struct Field(Mapping);

impl Field {
    /// So many bytes, each line of which was written to.
    ///
    /// # Errors
    /// If there is no memory left.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let mut field = Self(Mapping::new(bytes, Scope::Private).map_err(io::Error::other)?);
        field.words().iter_mut().step_by(LINE / 8).for_each(|word| *word = 1);
        Ok(field)
    }

    pub(super) fn words(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is aligned to a page, zeroed, of so many bytes, and borrowed as this is.
        unsafe { std::slice::from_raw_parts_mut(self.0.start().as_ptr().cast(), self.0.len() / 8) }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as above; a byte has no other alignment.
        unsafe { std::slice::from_raw_parts_mut(self.0.start().as_ptr(), self.0.len()) }
    }
}
