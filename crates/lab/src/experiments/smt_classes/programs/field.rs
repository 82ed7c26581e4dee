//! Memory that programs work on.

use std::convert::Infallible;
use std::io;

use daiko_sys::Scope;
use daiko_sys::memory::Mapping;

use crate::kit::SplitMix64;

/// Bytes beyond all caches of current machines except the largest. Fewer in tests, which share the
/// machine with other programs.
pub(super) const FAR: usize = if cfg!(test) { 64 << 20 } else { 256 << 20 };
/// Bytes within the second-level cache.
pub(super) const NEAR: usize = 256 << 10;
/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// Resident words.
pub(super) struct Field(Mapping);

impl Field {
    /// Allocates `bytes`, and writes to each cache line.
    ///
    /// # Errors
    /// Fails if there is no memory left.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let mut field = Self(Mapping::new(bytes, Scope::Private).map_err(io::Error::other)?);
        field.words().iter_mut().step_by(LINE / 8).for_each(|word| *word = 1);
        Ok(field)
    }

    pub(super) fn words(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is page-aligned, zeroed, of this length, and borrowed like `self`.
        unsafe { std::slice::from_raw_parts_mut(self.0.start().as_ptr().cast(), self.0.len() / 8) }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as above; bytes need no alignment.
        unsafe { std::slice::from_raw_parts_mut(self.0.start().as_ptr(), self.0.len()) }
    }
}

/// Result of a program: the reason why it could not continue.
pub(super) type Endless = io::Result<Infallible>;

/// Reports that the program has prepared, and repeats `step` until the process is killed.
#[inline(always)]
pub(super) fn repeat(ready: &mut dyn FnMut(), mut step: impl FnMut()) -> Endless {
    ready();
    loop {
        step();
    }
}

/// Repeats `step` on the words or bytes of a field, with a source of random numbers.
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
