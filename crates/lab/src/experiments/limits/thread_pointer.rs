//! Writes of the thread pointer, the FS base: what a switch between contexts with thread-locals of
//! their own adds to a bare switch.

use std::arch::asm;
use std::time::Instant;

use crate::kit::{Failure, Sample, ThreadRegister};

/// Returns the thread pointer of the calling thread.
pub(super) fn own() -> usize {
    let pointer;
    // SAFETY: the first word of a thread's control block is the block's address.
    unsafe { asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly)) };
    pointer
}

/// Writes the thread pointer by an instruction.
///
/// # Safety
/// The kernel offers FSGSBASE. No code uses a thread-local until the thread has its own pointer
/// again.
#[inline(always)]
pub(super) unsafe fn write(pointer: usize) {
    // SAFETY: the caller vouches for the instruction.
    unsafe { asm!("wrfsbase {}", in(reg) pointer, options(nostack, preserves_flags)) };
}

/// Measures writes of the thread's own pointer.
pub(super) fn run(way: ThreadRegister, rounds: u64) -> Result<Sample, Failure> {
    match way {
        ThreadRegister::FsGsBase => {
            // SAFETY: the way is planned where FSGSBASE is; the value does not change.
            measured(rounds, |pointer| unsafe { write(pointer) })
        }
        ThreadRegister::ArchPrctl => measured(rounds, |pointer| {
            const ARCH_SET_FS: usize = 0x1002;
            // SAFETY: takes plain integers; the value does not change.
            unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_FS, pointer) };
        }),
    }
}

fn measured(rounds: u64, write: impl Fn(usize)) -> Result<Sample, Failure> {
    let pointer = own();
    let start = Instant::now();
    (0..rounds).for_each(|_| write(pointer));
    Ok(Sample::timed(rounds, rounds, start.elapsed()))
}
