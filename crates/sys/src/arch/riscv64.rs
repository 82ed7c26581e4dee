//! riscv64, the ABI LP64D.

use std::arch::asm;
use std::ffi::c_long;

use libc::ucontext_t;

/// Returns the timer.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    let ticks;
    // SAFETY: Linux lets user code read it.
    unsafe { asm!("rdtime {}", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// Returns true: the architecture demands a fixed rate (RISC-V ISA manual, volume 1, Zicntr).
pub(crate) fn is_ticking_evenly() -> bool {
    true
}

/// Stops the calling process for its tracer.
///
/// # Safety
///
/// A tracer goes on behind the instruction, and changes no register.
#[inline(always)]
pub(crate) unsafe fn breakpoint() {
    // SAFETY: by this function's contract.
    unsafe { asm!("ebreak", options(nomem, nostack, preserves_flags)) };
}

/// Makes a system call by an instruction of this crate, which touches no thread-local: the result,
/// or an error number below 0.
///
/// # Safety
///
/// As for the call.
#[inline(always)]
pub(crate) unsafe fn system_call(number: c_long, arguments: [usize; 4]) -> c_long {
    let [first, second, third, fourth] = arguments;
    let result;
    // SAFETY: by this function's contract. A system call changes the register of the result, and
    // the registers of vectors.
    unsafe {
        asm!(
            "ecall",
            in("a7") number,
            inout("a0") first => result,
            in("a1") second,
            in("a2") third,
            in("a3") fourth,
            clobber_abi("C"),
            options(nostack),
        );
    }
    result
}

/// Numbers of registers in a signal's context, as in encodings of instructions.
const SP: usize = 2;
const A0: usize = 10;
const A7: usize = 17;

/// The stack pointer of the code that a signal has interrupted.
pub(crate) fn stack_pointer(context: &ucontext_t) -> usize {
    context.uc_mcontext.__gregs[SP] as usize
}

/// The system call that a signal stands for: its number and its arguments.
pub(crate) fn call_of(context: &ucontext_t) -> (c_long, [usize; 6]) {
    let registers = &context.uc_mcontext.__gregs;
    (registers[A7] as c_long, std::array::from_fn(|index| registers[A0 + index] as usize))
}

/// Sets the result of that call.
pub(crate) fn set_result(context: &mut ucontext_t, result: c_long) {
    context.uc_mcontext.__gregs[A0] = result as u64;
}

/// Copies 4 bytes, of which each access is one that may race.
///
/// # Safety
///
/// As for `copy_racing`, with this length.
#[inline(always)]
pub(crate) unsafe fn copy_4(from: *const u8, to: *mut u8) {
    // SAFETY: by this function's contract.
    unsafe {
        asm!(
            "lw {word}, ({from})",
            "sw {word}, ({to})",
            word = out(reg) _, from = in(reg) from, to = in(reg) to,
            options(nostack, preserves_flags)
        );
    }
}

/// [`copy_4`] for 8 bytes.
///
/// # Safety
///
/// As for [`copy_4`].
#[inline(always)]
pub(crate) unsafe fn copy_8(from: *const u8, to: *mut u8) {
    // SAFETY: by this function's contract.
    unsafe {
        asm!(
            "ld {word}, ({from})",
            "sd {word}, ({to})",
            word = out(reg) _, from = in(reg) from, to = in(reg) to,
            options(nostack, preserves_flags)
        );
    }
}

/// [`copy_4`] for 16 bytes.
///
/// # Safety
///
/// As for [`copy_4`].
#[inline(always)]
pub(crate) unsafe fn copy_16(from: *const u8, to: *mut u8) {
    // SAFETY: by this function's contract.
    unsafe {
        asm!(
            "ld {low}, ({from})",
            "ld {high}, 8({from})",
            "sd {low}, ({to})",
            "sd {high}, 8({to})",
            low = out(reg) _, high = out(reg) _, from = in(reg) from, to = in(reg) to,
            options(nostack, preserves_flags)
        );
    }
}

/// [`copy_4`] for any number of bytes.
///
/// # Safety
///
/// As for [`copy_4`].
#[inline(always)]
pub(crate) unsafe fn copy_any(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: by this function's contract.
    unsafe {
        asm!(
            "call {memcpy}",
            memcpy = sym libc::memcpy,
            in("a0") to, in("a1") from, in("a2") len,
            clobber_abi("C")
        );
    }
}

/// Calls `f` on the stack that ends at `top`.
///
/// # Safety
///
/// The stack is mapped and unused, and `f` can be called with the argument.
#[cfg(test)]
pub(crate) unsafe fn call_on(
    top: *mut u8,
    f: unsafe extern "C" fn(*mut u8) -> !,
    argument: *mut u8,
) -> ! {
    // SAFETY: by this function's contract.
    unsafe {
        asm!(
            "mv sp, {top}",
            "jalr {f}",
            "ebreak",
            top = in(reg) top,
            f = in(reg) f,
            in("a0") argument,
            options(noreturn),
        )
    }
}
