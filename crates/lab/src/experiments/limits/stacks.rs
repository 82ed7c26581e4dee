//! Stacks for the lab's own contexts.

use daiko_sys::Scope;
use daiko_sys::memory::{self, Mapping};

use crate::kit::Failure;

/// Distance of stacks: 64 KiB and an unused page. Tops a power of two apart would share few sets of
/// the TLB (a switch with 1000 stacks takes 37 ns on an EPYC without the page, 16 ns with it).
const STRIDE: usize = (64 + 4) * 1024;
/// Tops lie on 64 different lines, so that equal frames of different stacks do not all fall into
/// the same cache set (with 100 stacks: 13 ns with 16 lines, 9 ns with 64).
const COLOURS: usize = 64;
const LINE: usize = 64;

/// Coloured stacks of 64 KiB in one mapping, which is populated on first touch.
pub(super) struct Stacks(Mapping);

impl Stacks {
    /// Maps `count` stacks.
    pub(super) fn new(count: usize) -> Result<Self, Failure> {
        let mapping = Mapping::new(count * STRIDE, Scope::Private)
            .map_err(|error| Failure::Limit(format!("{count} stacks of 64 KiB: {error}")))?;
        memory::advise_no_huge_pages(mapping.start(), mapping.len());
        Ok(Self(mapping))
    }

    /// Returns the upper end of stack `index`, from which it grows downwards.
    pub(super) fn top(&self, index: usize) -> *mut u8 {
        let end = (index + 1) * STRIDE;
        assert!(end <= self.0.len(), "there is no stack {index}");
        // SAFETY: the offset lies within the mapping, by the assertion.
        unsafe { self.0.start().as_ptr().add(end - index % COLOURS * LINE) }
    }
}
