//! Requests to valgrind (`valgrind.h` of valgrind 3).

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
            "ror x12, x12, #3",
            "ror x12, x12, #13",
            "ror x12, x12, #51",
            "ror x12, x12, #61",
            "orr x10, x10, x10",
            inout("x3") 0_usize => answer,
            in("x4") words,
            // The sequence ends with the values that it began with.
            inout("x12") 0_usize => _,
            inout("x10") 0_usize => _,
            options(nostack),
        );
    }
    answer
}
