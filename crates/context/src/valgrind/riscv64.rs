//! Requests to valgrind, which runs no program of riscv64 before its release 3.25.

/// Returns 0: the process does not run under valgrind.
///
/// # Safety
///
/// None here.
pub(super) unsafe fn send(_words: &[usize; 6]) -> usize {
    0
}
