//! A bare switch between two stacks.
//!
//! A suspended context has these words on its stack, from its stack pointer upwards:
//!
//! ```text
//! sp -> | resume address | r15 | r14 | r13 | r12 | rbx | rbp | the caller's frame ...
//! ```
//!
//! A context that never ran has only the first word, its entry.

use std::arch::asm;
use std::time::Instant;
use std::{mem, ptr};

use crate::experiments::limits::stacks::Stacks;
use crate::kit::{Failure, Sample};

/// A suspended context. It must not move while other contexts may switch to it.
#[repr(C)]
pub(super) struct Context {
    sp: *mut u8,
}

/// First function of a context: `from` is the context that switched to it, `me` is the context
/// itself.
pub(super) type EntryPoint<T> = unsafe extern "C" fn(from: *mut T, me: *mut T) -> !;

impl Context {
    /// The context of the code that switches away through it.
    pub(super) const fn running() -> Self {
        Self { sp: ptr::null_mut() }
    }

    /// A context that starts in `entry` on the stack that ends at `top`. `T`
    /// begins with its `Context`.
    ///
    /// # Safety
    /// `top` is 16-byte aligned, and the memory below it is writable, unused,
    /// and large enough for all that `entry` calls.
    pub(super) unsafe fn starting<T>(top: *mut u8, entry: EntryPoint<T>) -> Self {
        // At its entry a function expects the stack pointer 8 bytes off a multiple of 16, where its
        // return address would be; this is the word left free at `top`. SAFETY: the caller hands
        // over the memory below `top`.
        unsafe {
            let sp = top.sub(2 * mem::size_of::<usize>());
            sp.cast::<usize>().write(entry as usize);
            Self { sp }
        }
    }
}

/// Switches to `to`. Returns when a context switches back to `from`.
///
/// All callee-saved registers are kept. `pop` and `jmp` are used in place of `ret`: the processor
/// predicts a `ret` from its own record of calls, which is always wrong after a switch of stacks.
///
/// # Safety
/// `from` is valid for writes and is not switched to before it is suspended here; `to` is suspended
/// (or starting) and its stack is intact. Both begin with a `Context`.
#[inline(always)]
pub(super) unsafe fn switch<T>(from: *mut T, to: *mut T) {
    // SAFETY: the pushed words are popped by the switch back, with the saved stack pointer.
    // Callee-saved registers are restored, and all other registers are declared as overwritten. The
    // caller vouches for both contexts.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rdi], rsp",
            "mov rsp, [rsi]",
            "pop rax",
            "jmp rax",
            "2:",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbx",
            "pop rbp",
            inout("rdi") from => _,
            inout("rsi") to => _,
            clobber_abi("C"),
        );
    }
}

/// Switches there and back `rounds` times.
pub(super) fn run(rounds: u64) -> Result<Sample, Failure> {
    let stacks = Stacks::new(1)?;
    let mut here = Context::running();
    // SAFETY: the stack is unused, and 64 KiB are enough for `echo`.
    let mut there = unsafe { Context::starting(stacks.top(0), echo) };
    let (here, there) = (&raw mut here, &raw mut there);
    let start = Instant::now();
    for _ in 0..rounds {
        // SAFETY: `here` runs, `there` is starting or suspended in `echo`, and
        // its stack lives until the end of this function.
        unsafe { switch(here, there) };
    }
    Ok(Sample::timed(rounds, 2 * rounds, start.elapsed()))
}

/// Switches back at once, forever. Its last suspension is never resumed; it owns nothing.
unsafe extern "C" fn echo(from: *mut Context, me: *mut Context) -> ! {
    loop {
        // SAFETY: `from` was suspended by the switch that resumed `me`.
        unsafe { switch(me, from) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_a_switch() {
        let stacks = Stacks::new(1).expect("a stack");
        let mut here = Context::running();
        // SAFETY: the stack is unused and large enough.
        let mut there = unsafe { Context::starting(stacks.top(0), echo) };
        let (here, there) = (&raw mut here, &raw mut there);
        let mut state = [1u64, 2, 3, 5, 7, 11, 13, 17];
        for round in 0..100u64 {
            // SAFETY: see `run`.
            unsafe { switch(here, there) };
            for (index, value) in state.iter_mut().enumerate() {
                *value = value.wrapping_mul(31).wrapping_add(round + index as u64);
            }
        }
        let mut expected = [1u64, 2, 3, 5, 7, 11, 13, 17];
        for round in 0..100u64 {
            for (index, value) in expected.iter_mut().enumerate() {
                *value = value.wrapping_mul(31).wrapping_add(round + index as u64);
            }
        }
        assert_eq!(state, expected);
    }
}
