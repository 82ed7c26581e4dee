//! Context switches.
//!
//! # Stacks
//!
//! A context that is not running is described by its stack pointer alone. From that address upwards
//! its stack holds:
//!
//! ```text
//!  left by `switch`        left by `switch_fp`      made by `prepare`
//!
//!  | frames ..     |       | frames ..     |        top, 16-byte aligned
//!  +---------------+       +---------------+        +---------------+
//!  | rbp           |       | rbp           |        | argument      |
//!  +---------------+       +---------------+        +---------------+
//!  | rbx           |       | rbx           |        | entry         |
//!  +---------------+       +---------------+        +---------------+
//!  | resume        |<-sp   | x87 CW, MXCSR |        | `first_frame` |<-sp
//!  +---------------+       +---------------+        +---------------+
//!                          | resume        |<-sp
//!                          +---------------+
//!
//!  left by `switch_own`    made by `prepare_own`
//!
//!  | frames ..     |       top, 16-byte aligned
//!  +---------------+       +---------------+
//!  | rbp           |       | thread pointer|
//!  +---------------+       +---------------+
//!  | rbx           |       | argument      |
//!  +---------------+       +---------------+
//!  | thread pointer|       | entry         |
//!  +---------------+       +---------------+
//!  | resume        |<-sp   | `first_frame_own`   |<-sp
//!  +---------------+       +---------------+
//! ```
//!
//! The lowest word is always the address to continue at. So every kind of context can be resumed by
//! every kind of switch, and each context restores its own registers.
//!
//! # Registers kept by a switch
//!
//! `rsp`, `rbp` and `rbx` are saved here (the compiler does not accept the other two as clobbers).
//! All other registers are declared clobbered, so that the compiler saves those in use and only
//! those. The direction flag is clear on both sides, as the ABI demands. The control words of the
//! floating-point units change with `switch_fp` only, the thread pointer with `switch_own` only.
//!
//! # The thread pointer
//!
//! A context with a control block of its own takes its thread pointer back when it is resumed, so
//! that the resumer need not know the kind of the context. A context without one runs under that of
//! the kernel thread: so a context that leaves to such a context first gives the seat its own
//! thread pointer back. Both happen in one piece of assembly with the switch: otherwise the
//! compiler could compute the address of a thread-local in between, under the wrong thread pointer.
//!
//! # Why `pop; jmp` and not `ret`
//!
//! The processor predicts that a `ret` returns to the last `call`, which is on the stack being
//! left. Every switch would be mispredicted: 11.4 ns instead of 2.2 ns.

use std::arch::{asm, naked_asm};
use std::ptr;

use daiko_core::inspect::FrameLayout;

use super::thread_register::set_thread_pointer_slow;
use crate::arch::stack_pointer::StackPointer;
#[cfg(daiko_sanitize)]
use crate::sanitizer;
use crate::seat::state::TABLE;

/// The frame left by [`switch`], for debuggers.
pub const FRAME: FrameLayout = FrameLayout {
    instruction_pointer: 0,
    base: 8,
    frame_pointer: 16,
    thread_pointer: u32::MAX,
    bytes: 24,
    reserved: 0,
};

/// The frame left by [`switch_own`], for debuggers.
pub const OWN_FRAME: FrameLayout = FrameLayout {
    instruction_pointer: 0,
    thread_pointer: 8,
    base: 16,
    frame_pointer: 24,
    bytes: 32,
    reserved: 0,
};

/// Saves the running context at `save` and continues with `to`.
///
/// Returns when another context switches to the saved one. Floating-point control words stay as
/// they are: the other context inherits them.
///
/// # Safety
///
/// - `save` is valid for a write. Nothing resumes the context saved there before it has been left:
///   the resumer runs on this thread, or receives the context by a hand-over that happens after the
///   switch.
/// - `to` was saved by a switch or made by [`prepare`], has not been resumed since, and its stack
///   is still mapped.
/// - The caller, inlined around this call, may keep values that belong to the thread (above all
///   addresses of thread-locals). They are still right on any thread that resumes the context.
#[inline(always)]
pub unsafe fn switch(save: *mut StackPointer, to: StackPointer) {
    #[cfg(daiko_sanitize)]
    // SAFETY: the switch follows, by the caller's promise.
    let (word, fiber) = unsafe { sanitizer::depart(to.0) };
    // SAFETY: the caller's promise. The assembly returns on the same stack with the same stack
    // pointer and preserves all undeclared registers.
    unsafe {
        #[cfg(daiko_sanitize)]
        sanitizer::enter(fiber);
        asm!(
            // The compiler uses these two and does not let assembly clobber them.
            "push rbp",
            "push rbx",
            // The address to continue at goes through a register, as position-independent code has
            // no `push` of an address.
            "lea rax, [rip + 2f]",
            "push rax",
            // The frame is complete: from here on the stack pointer describes this context.
            #[cfg(daiko_sanitize)]
            "mov qword ptr [rsp - 8], r8",
            "mov qword ptr [rdi], rsp",
            "mov rsp, rsi",
            // Not `ret`: see the head of this file.
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbx",
            "pop rbp",
            inout("rdi") save => _,
            inout("rsi") to.0 => _,
            // The ABI makes r12 to r15 callee-saved; here the next context overwrites them.
            #[cfg(daiko_sanitize)]
            inout("r8") word => _,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
    #[cfg(daiko_sanitize)]
    sanitizer::arrive();
}

/// Rounding, exception masks and flush modes of the floating-point units: the x87 control word and
/// MXCSR.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FpControl {
    mxcsr: u32,
    x87: u16,
}

/// `switch_fp` reads the two fields at these offsets.
const _: () = assert!(
    std::mem::offset_of!(FpControl, mxcsr) == 0 && std::mem::offset_of!(FpControl, x87) == 4
);

impl FpControl {
    /// The control words of the calling thread.
    pub fn current() -> Self {
        let mut now = Self { mxcsr: 0, x87: 0 };
        // SAFETY: both instructions write to the live local, 4 and 2 bytes.
        unsafe {
            asm!(
                "stmxcsr dword ptr [{now}]",
                "fnstcw word ptr [{now} + 4]",
                now = in(reg) &raw mut now,
                options(nostack, preserves_flags),
            );
        }
        // Bits 0 to 5 of MXCSR are raised exceptions, not control.
        Self { mxcsr: now.mxcsr & !0x3f, ..now }
    }

    /// Rounding to nearest, all exceptions masked, no flush to zero, as the ABI has it.
    pub(in crate::arch) const INITIAL: Self = Self { mxcsr: 0x1f80, x87: 0x037f };

    /// Gives the calling context these control words.
    #[cold]
    pub fn load(&self) {
        // SAFETY: both instructions only read the fields, 4 and 2 bytes. The values are those that
        // compiled code expects.
        unsafe {
            asm!(
                "ldmxcsr dword ptr [{this}]",
                "fldcw word ptr [{this} + 4]",
                this = in(reg) self,
                options(nostack, readonly),
            );
        }
    }
}

/// [`switch`] for a context with floating-point control words of its own.
///
/// They are saved on leaving and restored on return. In between the next context runs with
/// `others`, the control words that it would have had without this context.
///
/// # Safety
///
/// The conditions of [`switch`].
#[inline(always)]
pub unsafe fn switch_fp(save: *mut StackPointer, to: StackPointer, others: &FpControl) {
    #[cfg(daiko_sanitize)]
    // SAFETY: the switch follows, by the caller's promise.
    let (word, fiber) = unsafe { sanitizer::depart(to.0) };
    // SAFETY: see `switch`. `others` is read before the stack is left.
    unsafe {
        #[cfg(daiko_sanitize)]
        sanitizer::enter(fiber);
        asm!(
            "push rbp",
            "push rbx",
            // 8 bytes: MXCSR, the x87 control word, and 2 unused bytes.
            "sub rsp, 8",
            "stmxcsr dword ptr [rsp]",
            "fnstcw word ptr [rsp + 4]",
            "ldmxcsr dword ptr [rdx]",
            "fldcw word ptr [rdx + 4]",
            "lea rax, [rip + 2f]",
            "push rax",
            #[cfg(daiko_sanitize)]
            "mov qword ptr [rsp - 8], r8",
            "mov qword ptr [rdi], rsp",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            "2:",
            // The resumer does not know this context's control words.
            "ldmxcsr dword ptr [rsp]",
            "fldcw word ptr [rsp + 4]",
            "add rsp, 8",
            "pop rbx",
            "pop rbp",
            inout("rdi") save => _,
            inout("rsi") to.0 => _,
            inout("rdx") others => _,
            #[cfg(daiko_sanitize)]
            inout("r8") word => _,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
    #[cfg(daiko_sanitize)]
    sanitizer::arrive();
}

/// [`switch`] for a context that runs under a thread pointer of its own, `own`, on a seat.
///
/// `lent` is the thread pointer under which `to` has to be resumed: 0 if `to` takes its own, else
/// that of the seat's kernel thread. On return the thread pointer is `own` again, on the seat of
/// the thread that resumes the context.
///
/// # Safety
///
/// - The conditions of [`switch`], except that the caller may keep addresses of thread-locals.
/// - `own` is the thread pointer of the calling context. Nothing else runs with it while the
///   context is suspended.
/// - All code that resumes the context sits on a [seat](crate::seat::Seat).
#[inline(always)]
pub unsafe fn switch_own(save: *mut StackPointer, to: StackPointer, own: usize, lent: usize) {
    // SAFETY: the caller's promise. As in `switch`; the stack is aligned for both calls, which
    // clobber no more than any call does.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "push rdx",
            "lea rax, [rip + 7f]",
            "push rax",
            "mov qword ptr [rdi], rsp",
            // Resumed under the thread pointer of the kernel thread?
            "test rcx, rcx",
            "jz 3f",
            "cmp qword ptr [rip + {table}], 0",
            "je 2f",
            "wrfsbase rcx",
            "mov qword ptr gs:[0], rcx",
            "jmp 3f",
            "2:",
            "mov rbx, rsi",
            "mov rdi, rcx",
            "call {set_slow}",
            "mov rsi, rbx",
            "3:",
            "mov rsp, rsi",
            "pop rax",
            "jmp rax",
            // Resumed, under any thread pointer, on any seat.
            "7:",
            "pop rdi",
            "cmp qword ptr [rip + {table}], 0",
            "je 8f",
            "wrfsbase rdi",
            "mov qword ptr gs:[0], rdi",
            "jmp 9f",
            "8:",
            "call {set_slow}",
            "9:",
            "pop rbx",
            "pop rbp",
            table = sym TABLE,
            set_slow = sym set_thread_pointer_slow,
            inout("rdi") save => _,
            inout("rsi") to.0 => _,
            inout("rdx") own => _,
            inout("rcx") lent => _,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

/// Calls `function(arg)` on the stack that ends at `top`, and returns on the caller's.
///
/// The call is a call to unwinders and debuggers as well: they go on in the caller's frames. The
/// context may be left inside, and goes on there.
///
/// # Safety
///
/// - `top` is a multiple of 16. The stack below it is mapped, writable, large enough for
///   `function`, and unused until this returns.
/// - `function` takes `arg`, and does not unwind.
#[inline(always)]
pub unsafe fn call_on(top: *mut u8, function: unsafe extern "C" fn(*mut u8), arg: *mut u8) {
    #[cfg(not(daiko_sanitize))]
    // SAFETY: by this function's contract.
    unsafe {
        call_on_stack(arg, function, top);
    }
    #[cfg(daiko_sanitize)]
    // SAFETY: by this function's contract.
    unsafe {
        sanitizer::call_on(top, function, arg, call_on_stack);
    }
}

/// The call of [`call_on`]: `rdi` is the argument, `rsi` the function, `rdx` the top.
#[unsafe(naked)]
unsafe extern "C" fn call_on_stack(
    arg: *mut u8,
    function: unsafe extern "C" fn(*mut u8),
    top: *mut u8,
) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        // Unwinders find the caller's frame by this register, which `function` preserves.
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Makes the first frame of a fresh stack: a switch to the result calls `entry(arg)`.
///
/// `entry` finds the stack aligned as the ABI requires. Unwinders and debuggers see it called by a
/// frame without a caller, and stop there.
///
/// # Safety
///
/// `top` is a multiple of 16, and the stack below it is mapped, writable, unused, and large enough
/// for `entry`.
pub unsafe fn prepare(
    top: *mut u8,
    entry: unsafe extern "C" fn(*mut u8) -> !,
    arg: *mut u8,
) -> StackPointer {
    #[cfg(daiko_sanitize)]
    // SAFETY: by this function's contract.
    let (entry, arg) = unsafe { sanitizer::prepare(top, entry, arg) };
    let frame = [first_frame as *const (), entry as *const (), arg.cast_const().cast()];
    // SAFETY: the caller guarantees room for more than these three words below `top`, which is
    // aligned for them.
    unsafe {
        let bottom = top.cast::<[*const (); 3]>().sub(1);
        bottom.write(frame);
        #[cfg(daiko_sanitize)]
        bottom.cast::<*mut u8>().sub(1).write(arg);
        StackPointer(bottom.cast())
    }
}

/// Makes the first frame of a fresh stack whose context has a control block of its own: a switch to
/// the result calls `entry(arg)` under the thread pointer `own`.
///
/// # Safety
///
/// As for [`prepare`]. `own` is the thread pointer of a control block that nothing else runs with,
/// and all code that resumes the context sits on a [seat](crate::seat::Seat).
pub unsafe fn prepare_own(
    top: *mut u8,
    entry: unsafe extern "C" fn(*mut u8) -> !,
    arg: *mut u8,
    own: usize,
) -> StackPointer {
    let pointer = ptr::without_provenance(own);
    let frame =
        [first_frame_own as *const (), entry as *const (), arg.cast_const().cast(), pointer];
    // SAFETY: the caller guarantees room for more than these four words below `top`, which is
    // aligned for them.
    unsafe {
        let bottom = top.cast::<[*const (); 4]>().sub(1);
        bottom.write(frame);
        StackPointer(bottom.cast())
    }
}

/// The code at which the first switch to a prepared stack continues: calls the entry with its
/// argument.
#[unsafe(naked)]
unsafe extern "C" fn first_frame() {
    naked_asm!(
        // This frame has no caller: an unwinder stops here.
        ".cfi_startproc",
        ".cfi_undefined rip",
        // A walk along frame pointers ends at zero.
        "xor ebp, ebp",
        // The two words that `prepare` wrote above the first. Afterwards rsp is `top` again,
        // aligned for a call.
        "pop rax",
        "pop rdi",
        // A return address that leads unwinders to this frame. Not pushed by a call: the entry does
        // not return, and the processor, which pairs calls with returns, would mispredict every
        // return of the next fiber.
        "lea rcx, [rip + 2f]",
        "push rcx",
        "jmp rax",
        // The return address lies inside the function, one byte behind the instruction in place of
        // the call.
        "nop",
        "2:",
        "ud2",
        ".cfi_endproc",
    )
}

/// [`first_frame`] for a stack made by [`prepare_own`].
#[unsafe(naked)]
unsafe extern "C" fn first_frame_own() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "xor ebp, ebp",
        // The three words that `prepare_own` wrote above the first. The first two stay where they
        // are until the thread pointer is set, so that the stack is aligned for a call.
        "mov rdi, qword ptr [rsp + 16]",
        "cmp qword ptr [rip + {table}], 0",
        "je 3f",
        "wrfsbase rdi",
        "mov qword ptr gs:[0], rdi",
        "4:",
        "pop rax",
        "pop rdi",
        "pop rdx",
        // As in `first_frame`.
        "lea rcx, [rip + 2f]",
        "push rcx",
        "jmp rax",
        "3:",
        // One word, since three are above the aligned top.
        "push rdi",
        "call {set_slow}",
        "pop rdi",
        "jmp 4b",
        "nop",
        "2:",
        "ud2",
        ".cfi_endproc",
        table = sym TABLE,
        set_slow = sym set_thread_pointer_slow,
    )
}
