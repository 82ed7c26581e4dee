//! Requests to valgrind.

use std::arch::asm;

/// Makes a request: a code and its arguments. Returns 0 unless the process runs under valgrind.
///
/// # Safety
///
/// As for the request.
pub(super) unsafe fn send(words: &[usize; 6]) -> usize {
    let answer;
    // SAFETY: without valgrind the rotations add up to 128 bits, and nothing else changes. Valgrind
    // reads the words, which are live.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") words,
            inout("rdx") 0_usize => answer,
            // The sequence ends with the value that it began with.
            inout("rdi") 0_usize => _,
            options(nostack),
        );
    }
    answer
}
