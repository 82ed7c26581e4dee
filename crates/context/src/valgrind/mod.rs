//! Registers stacks with valgrind, which otherwise takes a switch for one large change of the stack
//! pointer, and reports the frames of the other stack as undefined.
//!
//! A request is a sequence of instructions without effect, which valgrind's translator replaces
//! (`valgrind.h` of valgrind 3). Elsewhere it takes as long as those instructions.

use std::ops::Range;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as of_processor;
#[cfg(target_arch = "riscv64")]
use riscv64 as of_processor;
#[cfg(target_arch = "x86_64")]
use x86_64 as of_processor;

/// `VG_USERREQ__RUNNING_ON_VALGRIND`
const RUNNING_ON_VALGRIND: usize = 0x1001;
/// `VG_USERREQ__STACK_REGISTER`
const STACK_REGISTER: usize = 0x1501;
/// `VG_USERREQ__STACK_DEREGISTER`
const STACK_DEREGISTER: usize = 0x1502;

/// Makes a request with up to two arguments. Returns 0 unless the process runs under valgrind.
fn request(code: usize, first: usize, second: usize) -> usize {
    // SAFETY: valgrind knows these requests, and their arguments are addresses and numbers.
    unsafe { of_processor::send(&[code, first, second, 0, 0, 0]) }
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
