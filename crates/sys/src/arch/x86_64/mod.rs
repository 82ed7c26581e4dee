//! x86-64, System V ABI.

mod user_wait;

use std::arch::asm;
use std::arch::x86_64::__cpuid;
use std::ffi::c_long;

use libc::{c_int, ucontext_t};

pub(crate) use self::user_wait::Instruction;

/// Returns the time stamp counter.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has it, unless the process has disabled it by `prctl`, which
    // forbids clocks as well.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Returns true if the processor says that its time stamp counter never changes its rate (Intel
/// SDM, volume 3, 18.17.1; AMD APM, volume 3, E.4.7).
pub(crate) fn is_ticking_evenly() -> bool {
    const POWER: u32 = 0x8000_0007;
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & 1 << 8 != 0
}

/// Returns the name of the processor's maker and its version: leaf 0, and EAX of leaf 1, of
/// `cpuid`.
pub(crate) fn identity() -> ([u8; 12], u32) {
    let (names, version) = (__cpuid(0), __cpuid(1).eax);
    let name = [names.ebx, names.edx, names.ecx].map(u32::to_le_bytes);
    (name.as_flattened().try_into().expect("three times four bytes"), version)
}

/// Stops the calling process for its tracer.
///
/// # Safety
///
/// A tracer goes on behind the instruction, and changes no register.
#[inline(always)]
pub(crate) unsafe fn breakpoint() {
    // SAFETY: by this function's contract.
    unsafe { asm!("int3", options(nomem, nostack, preserves_flags)) };
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
    // SAFETY: by this function's contract. A system call changes these registers only.
    unsafe {
        asm!(
            "syscall",
            inout("rax") number => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result
}

/// The calls of older architectures, with their names.
pub(crate) const OLD_CALLS: [(c_long, &str); 5] = [
    (libc::SYS_epoll_wait, "epoll_wait"),
    (libc::SYS_open, "open"),
    (libc::SYS_pause, "pause"),
    (libc::SYS_poll, "poll"),
    (libc::SYS_select, "select"),
];

/// The last two arguments of `clone` in the order of the kernel for this architecture.
pub(crate) fn clone_arguments(thread_id: usize, thread_pointer: usize) -> [usize; 2] {
    [thread_id, thread_pointer]
}

/// The stack pointer of the code that a signal has interrupted.
pub(crate) fn stack_pointer(context: &ucontext_t) -> usize {
    register(context, libc::REG_RSP)
}

/// The system call that a signal stands for: its number and its arguments.
pub(crate) fn call_of(context: &ucontext_t) -> (c_long, [usize; 6]) {
    use libc::{REG_R8, REG_R9, REG_R10, REG_RAX, REG_RDI, REG_RDX, REG_RSI};
    let arguments = [REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9];
    (register(context, REG_RAX) as c_long, arguments.map(|number| register(context, number)))
}

/// Sets the result of that call.
pub(crate) fn set_result(context: &mut ucontext_t, result: c_long) {
    context.uc_mcontext.gregs[libc::REG_RAX as usize] = result;
}

fn register(context: &ucontext_t, number: c_int) -> usize {
    context.uc_mcontext.gregs[number as usize] as usize
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
            "mov {word:e}, [{from}]",
            "mov [{to}], {word:e}",
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
            "mov {word}, [{from}]",
            "mov [{to}], {word}",
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
            "movups {words}, [{from}]",
            "movups [{to}], {words}",
            words = out(xmm_reg) _, from = in(reg) from, to = in(reg) to,
            options(nostack, preserves_flags)
        );
    }
}

/// [`copy_4`] for any number of bytes. `memcpy` is called as the ABI demands, which leaves the
/// stack aligned before assembly that may push.
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
            in("rdi") to, in("rsi") from, in("rdx") len,
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
            "mov rsp, {top}",
            "call {f}",
            "ud2",
            top = in(reg) top,
            f = in(reg) f,
            in("rdi") argument,
            options(noreturn),
        )
    }
}

/// Counts down in r13 in a loop of two instructions per round, and returns their addresses.
#[cfg(test)]
pub(crate) fn count_down(mut count: u64) -> std::ops::Range<u64> {
    let (begin, end): (u64, u64);
    // SAFETY: a loop that counts down in a register.
    unsafe {
        asm!(
            "lea {begin}, [rip + 2f]", "lea {end}, [rip + 3f]",
            "2:", "dec r13", "jnz 2b", "3:",
            begin = out(reg) begin, end = out(reg) end, inout("r13") count, options(nomem, nostack)
        );
    }
    assert_eq!(count, 0);
    begin..end
}
