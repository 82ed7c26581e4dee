//! The parts that x86-64 has alone.

use std::ffi::c_long;

/// An instruction that waits in user mode: `wfe` and `wrs` have no bound that the caller sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instruction {}

impl Instruction {
    /// Returns none.
    pub(crate) fn detect() -> Option<Self> {
        None
    }

    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        match self {}
    }

    /// Waits for a write to the line of a byte if `is_silent` returns true.
    ///
    /// # Safety
    ///
    /// The byte is readable.
    pub(crate) unsafe fn wait_while(
        self,
        _line: *const u8,
        _ticks: u32,
        _is_silent: impl FnOnce() -> bool,
    ) {
        match self {}
    }
}

/// Returns no maker that has hardware events known by name.
pub(crate) fn identity() -> ([u8; 12], u32) {
    Default::default()
}

/// The calls of older architectures: none.
pub(crate) const OLD_CALLS: [(c_long, &str); 0] = [];

/// The last two arguments of `clone` in the order of the kernel for these architectures.
pub(crate) fn clone_arguments(thread_id: usize, thread_pointer: usize) -> [usize; 2] {
    [thread_pointer, thread_id]
}

/// Counts down, at addresses that nothing samples.
#[cfg(test)]
pub(crate) fn count_down(count: u64) -> std::ops::Range<u64> {
    (0..count).for_each(|left| _ = std::hint::black_box(left));
    0..0
}
