//! Registers stacks with valgrind, which otherwise takes a switch for one large change of the stack
//! pointer, and reports the frames of the other stack as undefined.
//!
//! A request is a sequence of instructions without effect, which valgrind's translator replaces
//! (`valgrind.h` of valgrind 3). Elsewhere it takes as long as those instructions.

use std::arch::asm;
use std::ops::Range;

/// `VG_USERREQ__RUNNING_ON_VALGRIND`
const RUNNING_ON_VALGRIND: usize = 0x1001;
/// `VG_USERREQ__STACK_REGISTER`
const STACK_REGISTER: usize = 0x1501;
/// `VG_USERREQ__STACK_DEREGISTER`
const STACK_DEREGISTER: usize = 0x1502;

/// Makes a request with up to two arguments. Returns 0 unless the process runs under valgrind.
fn request(code: usize, first: usize, second: usize) -> usize {
    let words = [code, first, second, 0, 0, 0];
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
            in("rax") &raw const words,
            inout("rdx") 0_usize => answer,
            // The sequence ends with the value that it began with.
            inout("rdi") 0_usize => _,
            options(nostack),
        );
    }
    answer
}

/// Stacks that valgrind knows, until this is dropped. Empty without valgrind.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    ids: Vec<usize>,
}

impl Stacks {
    /// Registers stacks by the addresses of their bytes.
    pub(crate) fn register(stacks: impl Iterator<Item = Range<usize>>) -> Self {
        if request(RUNNING_ON_VALGRIND, 0, 0) == 0 {
            return Self::default();
        }
        // The last byte, and not the end, belongs to the stack.
        let register = |stack: Range<usize>| request(STACK_REGISTER, stack.start, stack.end - 1);
        Self { ids: stacks.map(register).collect() }
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        for &id in &self.ids {
            request(STACK_DEREGISTER, id, 0);
        }
    }
}
