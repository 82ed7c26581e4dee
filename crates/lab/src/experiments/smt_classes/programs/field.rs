//! The memory that programs work on.

use std::convert::Infallible;
use std::io;

use daiko_sys::Scope;
use daiko_sys::memory::Mapping;

use crate::kit::SplitMix64;

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

/// What a program returns: why it could not go on.
pub(super) type Endless = io::Result<Infallible>;

/// Tells that all is prepared, and repeats `step` until the process is killed.
#[inline(always)]
pub(super) fn repeat(ready: &mut dyn FnMut(), mut step: impl FnMut()) -> Endless {
    ready();
    loop {
        step();
    }
}

/// Repeats `step` on the words or bytes of a field, with numbers to draw.
#[inline(always)]
pub(super) fn on<T>(
    units: fn(&mut Field) -> &mut [T],
    bytes: usize,
    ready: &mut dyn FnMut(),
    mut step: impl FnMut(&mut [T], &mut SplitMix64),
) -> Endless {
    let (mut field, mut random) = (Field::new(bytes)?, SplitMix64(1));
    let units = units(&mut field);
    repeat(ready, || step(units, &mut random))
}
