//! aarch64, AAPCS64.

use std::arch::asm;
use std::ffi::c_long;

use libc::ucontext_t;

/// Returns the virtual counter.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    let ticks;
    // SAFETY: Linux lets user code read it.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// Returns true: the architecture demands a fixed rate (Arm ARM, D12.1, "The Generic Timer").
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
    unsafe { asm!("brk #0", options(nomem, nostack, preserves_flags)) };
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
    // the upper parts of those of vectors.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inout("x0") first => result,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            clobber_abi("C"),
            options(nostack),
        );
    }
    result
}

/// The stack pointer of the code that a signal has interrupted.
pub(crate) fn stack_pointer(context: &ucontext_t) -> usize {
    context.uc_mcontext.sp as usize
}

/// The system call that a signal stands for: its number and its arguments.
pub(crate) fn call_of(context: &ucontext_t) -> (c_long, [usize; 6]) {
    let registers = &context.uc_mcontext.regs;
    (registers[8] as c_long, std::array::from_fn(|index| registers[index] as usize))
}

/// Sets the result of that call.
pub(crate) fn set_result(context: &mut ucontext_t, result: c_long) {
    context.uc_mcontext.regs[0] = result as u64;
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
            "ldr {word:w}, [{from}]",
            "str {word:w}, [{to}]",
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
            "ldr {word}, [{from}]",
            "str {word}, [{to}]",
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
            "ldp {low}, {high}, [{from}]",
            "stp {low}, {high}, [{to}]",
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
            "bl {memcpy}",
            memcpy = sym libc::memcpy,
            in("x0") to, in("x1") from, in("x2") len,
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
            "mov sp, {top}",
            "blr {f}",
            "brk #0",
            top = in(reg) top,
            f = in(reg) f,
            in("x0") argument,
            options(noreturn),
        )
    }
}
