//! Stacks for the lab's own contexts.

use std::{io, ptr};

use crate::Failure;

const STRIDE: usize = 64 * 1024;
/// Tops lie on 16 different lines, so that equal frames of different stacks do
/// not all fall into the same cache set.
const COLOURS: usize = 16;
const LINE: usize = 64;

/// Stacks of 64 KiB, coloured, in one mapping that is filled as it is touched.
pub(super) struct Stacks {
    base: *mut u8,
    bytes: usize,
}

impl Stacks {
    /// `count` stacks.
    pub(super) fn new(count: usize) -> Result<Self, Failure> {
        let bytes = count * STRIDE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            return Err(Failure::Limit(format!(
                "cannot map {count} stacks of 64 KiB: {error} (see ulimit -v, vm.overcommit_memory)"
            )));
        }
        // A huge page per 32 stacks would make each touch cost 2 MiB. Advice
        // only: a kernel without huge pages refuses it.
        // SAFETY: the range is the mapping made above.
        unsafe { libc::madvise(base, bytes, libc::MADV_NOHUGEPAGE) };
        Ok(Self { base: base.cast(), bytes })
    }

    /// Where stack `index` begins; it grows downwards from there.
    pub(super) fn top(&self, index: usize) -> *mut u8 {
        assert!((index + 1) * STRIDE <= self.bytes);
        // SAFETY: the offset lies within the mapping, by the assertion.
        unsafe { self.base.add((index + 1) * STRIDE - index % COLOURS * LINE) }
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping made in `new`, and contexts on it
        // are never resumed once their stacks are dropped.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}
