//! Context switches of aarch64. The frames are drawn in `four_words.rs`.
//!
//! # Registers kept by a switch
//!
//! `sp`, `x29` and `x19` are saved here (the compiler does not accept the other two as clobbers).
//! All other registers are declared clobbered, so that the compiler saves those in use and only
//! those. FPCR changes with `switch_fp` only, the thread pointer with `switch_own` only. FPSR,
//! which has no control, stays with the kernel thread.
//!
//! Every switch pops the two lower words at once, into `x16` and `x17`: the landing code of the
//! context finds the second word in `x17`.
//!
//! # Why `br x16` and not `ret`
//!
//! The processor predicts that a `ret` returns to the last `bl`, which is on the stack being left.
//! In pages with branch target identification a `br` by `x16` or `x17` may land at a `bti c`, as
//! any function begins with, or at a `bti j`, as the code of a switch goes on with. Processors
//! without it take these for hints without effect.
//!
//! A return address that the entry signs on its stack is verified there as well: no signed address
//! is in a frame.

use std::arch::{asm, naked_asm};
use std::ptr;

use crate::arch::four_words::write_frame;
use crate::arch::stack_pointer::StackPointer;
use crate::arch::thread_local_seat::set_thread_pointer;

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
    // SAFETY: the caller's promise. The assembly returns on the same stack with the same stack
    // pointer and preserves all undeclared registers.
    unsafe {
        asm!(
            "adr x16, 2f",
            // The compiler uses these two and does not let assembly clobber them.
            "stp x19, x29, [sp, #-16]!",
            "stp x16, xzr, [sp, #-16]!",
            // The frame is complete: from here on the stack pointer describes this context.
            "mov x17, sp",
            "str x17, [x0]",
            "mov sp, x1",
            // Not `ret`: see the head of this file.
            "ldp x16, x17, [sp], #16",
            "br x16",
            "2:",
            // `bti j`
            "hint #36",
            "ldp x19, x29, [sp], #16",
            inout("x0") save => _,
            inout("x1") to.0 => _,
            // The ABI makes these callee-saved; here the next context overwrites them.
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _,
            out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            clobber_abi("C"),
        );
    }
}

/// Rounding, exception traps and flush modes of the floating-point unit: FPCR.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FpControl {
    fpcr: u64,
}

/// `switch_fp` reads the field at this offset.
const _: () = assert!(std::mem::offset_of!(FpControl, fpcr) == 0);

impl FpControl {
    /// The control word of the calling thread.
    pub fn current() -> Self {
        let fpcr;
        // SAFETY: it reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack, preserves_flags)) };
        Self { fpcr }
    }

    /// Rounding to nearest, no exception trapped, no flush to zero, as the ABI has it.
    pub(in crate::arch) const INITIAL: Self = Self { fpcr: 0 };

    /// Gives the calling context this control word.
    #[cold]
    pub fn load(&self) {
        // SAFETY: the value is one that compiled code expects.
        unsafe { asm!("msr fpcr, {}", in(reg) self.fpcr, options(nostack)) };
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
    // SAFETY: see `switch`. Its last argument is read before the stack is left.
    unsafe {
        asm!(
            "adr x16, 2f",
            "mrs x17, fpcr",
            "stp x19, x29, [sp, #-16]!",
            "stp x16, x17, [sp, #-16]!",
            "ldr x16, [x2]",
            "msr fpcr, x16",
            "mov x17, sp",
            "str x17, [x0]",
            "mov sp, x1",
            "ldp x16, x17, [sp], #16",
            "br x16",
            "2:",
            "hint #36",
            // The resumer does not know this context's control word.
            "msr fpcr, x17",
            "ldp x19, x29, [sp], #16",
            inout("x0") save => _,
            inout("x1") to.0 => _,
            inout("x2") others => _,
            // The ABI makes these callee-saved; here the next context overwrites them.
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _,
            out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            clobber_abi("C"),
        );
    }
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
            "adr x16, 2f",
            "stp x19, x29, [sp, #-16]!",
            "stp x16, x2, [sp, #-16]!",
            "mov x17, sp",
            "str x17, [x0]",
            // Resumed under the thread pointer of the kernel thread?
            "cbz x3, 3f",
            "mov x19, x1",
            "mov x0, x3",
            "bl {set}",
            "mov x1, x19",
            "3:",
            "mov sp, x1",
            "ldp x16, x17, [sp], #16",
            "br x16",
            // Resumed, under any thread pointer, on any seat.
            "2:",
            "hint #36",
            "mov x0, x17",
            "bl {set}",
            "ldp x19, x29, [sp], #16",
            set = sym set_thread_pointer,
            inout("x0") save => _,
            inout("x1") to.0 => _,
            inout("x2") own => _,
            inout("x3") lent => _,
            // The ABI makes these callee-saved; here the next context overwrites them.
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _,
            out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            clobber_abi("C"),
        );
    }
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
    // SAFETY: by this function's contract.
    unsafe { write_frame(top, [first_frame as *const (), ptr::null()], entry, arg) }
}

/// Makes the first frame of a fresh stack for a context with a control block of its own: a switch
/// to the result calls `entry(arg)` under the thread pointer `own`.
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
    let lower = [first_frame_own as *const (), ptr::without_provenance(own)];
    // SAFETY: by this function's contract.
    unsafe { write_frame(top, lower, entry, arg) }
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
    // SAFETY: by this function's contract.
    unsafe { call_on_stack(arg, function, top) };
}

/// The call of [`call_on`]: `x0` is the argument, `x1` the function, `x2` the top.
#[unsafe(naked)]
unsafe extern "C" fn call_on_stack(
    arg: *mut u8,
    function: unsafe extern "C" fn(*mut u8),
    top: *mut u8,
) {
    naked_asm!(
        ".cfi_startproc",
        // `bti c`
        "hint #34",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        // Unwinders find the caller's frame by this register, which `function` preserves.
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "mov sp, x2",
        "blr x1",
        "mov sp, x29",
        ".cfi_def_cfa_register sp",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
    )
}

/// The code at which the first switch to a prepared stack continues: calls the entry with its
/// argument.
#[unsafe(naked)]
unsafe extern "C" fn first_frame() {
    naked_asm!(
        // This frame has no caller: an unwinder stops here.
        ".cfi_startproc",
        ".cfi_undefined x30",
        // `bti j`
        "hint #36",
        // A walk along frame pointers ends at zero.
        "mov x29, xzr",
        // The two words that `prepare` wrote above the first two. Afterwards sp is `top` again,
        // aligned.
        "ldp x16, x0, [sp], #16",
        // A return address that leads unwinders to this frame. Not left by a call: the entry does
        // not return, and the processor, which pairs calls with returns, would mispredict every
        // return of the next fiber.
        "adr x30, 2f",
        "br x16",
        // The return address lies inside the function, one instruction behind that in place of the
        // call.
        "nop",
        "2:",
        "brk #1",
        ".cfi_endproc",
    )
}

/// [`first_frame`] for a stack made by `prepare_own`.
#[unsafe(naked)]
unsafe extern "C" fn first_frame_own() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined x30",
        "hint #36",
        "mov x29, xzr",
        // The thread pointer, which the switch has popped.
        "mov x0, x17",
        "bl {set}",
        // As in `first_frame`.
        "ldp x16, x0, [sp], #16",
        "adr x30, 2f",
        "br x16",
        "nop",
        "2:",
        "brk #1",
        ".cfi_endproc",
        set = sym set_thread_pointer,
    )
}
