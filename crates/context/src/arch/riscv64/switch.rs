//! Context switches of riscv64. The frames are drawn in `four_words.rs`.
//!
//! # Registers kept by a switch
//!
//! `sp`, `s0` and `s1` are saved here (the compiler does not accept the other two as clobbers). All
//! other registers are declared clobbered, so that the compiler saves those in use and only those.
//! The rounding mode, `frm`, changes with `switch_fp` only, the thread pointer with `switch_own`
//! only. The raised exceptions, `fflags`, which are no control, stay with the kernel thread.
//!
//! A switch reads the lowest word alone; the landing code of the context reads the rest, which
//! lies above its stack pointer until then.
//!
//! # Why `jr t1` and not `ret`
//!
//! The processor predicts that a `ret` returns to the last `call`, which is on the stack being
//! left; it takes no jump by `t1` for a return. A processor with landing pads (Zicfilp) lets such a
//! jump land at `lpad 0` alone, on a multiple of 4; the rest take it for `auipc zero, 0`, which has
//! no effect.

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
            "addi sp, sp, -32",
            // The compiler uses these two and does not let assembly clobber them.
            "sd s0, 24(sp)",
            "sd s1, 16(sp)",
            "lla t1, 2f",
            "sd t1, 0(sp)",
            // The frame is complete: from here on the stack pointer describes this context.
            "sd sp, 0(a0)",
            "mv sp, a1",
            // Not `ret`: see the head of this file.
            "ld t1, 0(sp)",
            "jr t1",
            ".p2align 2",
            "2:",
            // `lpad 0`
            "auipc zero, 0",
            "ld s1, 16(sp)",
            "ld s0, 24(sp)",
            "addi sp, sp, 32",
            inout("a0") save => _,
            inout("a1") to.0 => _,
            // The ABI makes these callee-saved; here the next context overwrites them.
            out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s8") _, out("s9") _, out("s10") _, out("s11") _,
            out("fs0") _, out("fs1") _, out("fs2") _, out("fs3") _, out("fs4") _, out("fs5") _,
            out("fs6") _, out("fs7") _, out("fs8") _, out("fs9") _, out("fs10") _, out("fs11") _,
            clobber_abi("C"),
        );
    }
}

/// The rounding mode of the floating-point unit: `frm`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FpControl {
    frm: u64,
}

/// `switch_fp` reads the field at this offset.
const _: () = assert!(std::mem::offset_of!(FpControl, frm) == 0);

impl FpControl {
    /// The rounding mode of the calling thread.
    pub fn current() -> Self {
        let frm;
        // SAFETY: it reads a register.
        unsafe { asm!("frrm {}", out(reg) frm, options(nomem, nostack, preserves_flags)) };
        Self { frm }
    }

    /// Rounding to nearest, as the ABI has it.
    pub(in crate::arch) const INITIAL: Self = Self { frm: 0 };

    /// Gives the calling context this rounding mode.
    #[cold]
    pub fn load(&self) {
        // SAFETY: the value is one that compiled code expects.
        unsafe { asm!("fsrm {}", in(reg) self.frm, options(nostack)) };
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
            "addi sp, sp, -32",
            "sd s0, 24(sp)",
            "sd s1, 16(sp)",
            "frrm t1",
            "sd t1, 8(sp)",
            "ld t1, 0(a2)",
            "fsrm t1",
            "lla t1, 2f",
            "sd t1, 0(sp)",
            "sd sp, 0(a0)",
            "mv sp, a1",
            "ld t1, 0(sp)",
            "jr t1",
            ".p2align 2",
            "2:",
            "auipc zero, 0",
            // The resumer does not know this context's rounding mode.
            "ld t1, 8(sp)",
            "fsrm t1",
            "ld s1, 16(sp)",
            "ld s0, 24(sp)",
            "addi sp, sp, 32",
            inout("a0") save => _,
            inout("a1") to.0 => _,
            inout("a2") others => _,
            // The ABI makes these callee-saved; here the next context overwrites them.
            out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s8") _, out("s9") _, out("s10") _, out("s11") _,
            out("fs0") _, out("fs1") _, out("fs2") _, out("fs3") _, out("fs4") _, out("fs5") _,
            out("fs6") _, out("fs7") _, out("fs8") _, out("fs9") _, out("fs10") _, out("fs11") _,
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
            "addi sp, sp, -32",
            "sd s0, 24(sp)",
            "sd s1, 16(sp)",
            "sd a2, 8(sp)",
            "lla t1, 2f",
            "sd t1, 0(sp)",
            "sd sp, 0(a0)",
            // Resumed under the thread pointer of the kernel thread?
            "beqz a3, 3f",
            "mv s1, a1",
            "mv a0, a3",
            "call {set}",
            "mv a1, s1",
            "3:",
            "mv sp, a1",
            "ld t1, 0(sp)",
            "jr t1",
            // Resumed, under any thread pointer, on any seat.
            ".p2align 2",
            "2:",
            "auipc zero, 0",
            "ld a0, 8(sp)",
            "call {set}",
            "ld s1, 16(sp)",
            "ld s0, 24(sp)",
            "addi sp, sp, 32",
            set = sym set_thread_pointer,
            inout("a0") save => _,
            inout("a1") to.0 => _,
            inout("a2") own => _,
            inout("a3") lent => _,
            // The ABI makes these callee-saved; here the next context overwrites them.
            out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s8") _, out("s9") _, out("s10") _, out("s11") _,
            out("fs0") _, out("fs1") _, out("fs2") _, out("fs3") _, out("fs4") _, out("fs5") _,
            out("fs6") _, out("fs7") _, out("fs8") _, out("fs9") _, out("fs10") _, out("fs11") _,
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

/// The call of [`call_on`]: `a0` is the argument, `a1` the function, `a2` the top.
#[unsafe(naked)]
unsafe extern "C" fn call_on_stack(
    arg: *mut u8,
    function: unsafe extern "C" fn(*mut u8),
    top: *mut u8,
) {
    naked_asm!(
        ".cfi_startproc",
        // `lpad 0`
        ".p2align 2",
        "auipc zero, 0",
        "addi sp, sp, -16",
        ".cfi_def_cfa_offset 16",
        "sd ra, 8(sp)",
        ".cfi_offset ra, -8",
        "sd s0, 0(sp)",
        ".cfi_offset s0, -16",
        // Unwinders find the caller's frame by this register, which `function` preserves.
        "mv s0, sp",
        ".cfi_def_cfa_register s0",
        "mv sp, a2",
        "jalr a1",
        "mv sp, s0",
        ".cfi_def_cfa_register sp",
        "ld ra, 8(sp)",
        "ld s0, 0(sp)",
        "addi sp, sp, 16",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore ra",
        ".cfi_restore s0",
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
        ".cfi_undefined ra",
        // `lpad 0`
        ".p2align 2",
        "auipc zero, 0",
        // A walk along frame pointers ends at zero.
        "mv s0, zero",
        // The two words that `prepare` wrote above the first two. Afterwards sp is `top` again,
        // aligned.
        "ld t1, 16(sp)",
        "ld a0, 24(sp)",
        "addi sp, sp, 32",
        // A return address that leads unwinders to this frame. Not left by a call: the entry does
        // not return, and the processor, which pairs calls with returns, would mispredict every
        // return of the next fiber.
        "lla ra, 2f",
        "jr t1",
        // The return address lies inside the function, one instruction behind that in place of the
        // call.
        "nop",
        "2:",
        "unimp",
        ".cfi_endproc",
    )
}

/// [`first_frame`] for a stack made by `prepare_own`.
#[unsafe(naked)]
unsafe extern "C" fn first_frame_own() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined ra",
        ".p2align 2",
        "auipc zero, 0",
        "mv s0, zero",
        // The thread pointer. The other words stay where they are until it is set.
        "ld a0, 8(sp)",
        "call {set}",
        // As in `first_frame`.
        "ld t1, 16(sp)",
        "ld a0, 24(sp)",
        "addi sp, sp, 32",
        "lla ra, 2f",
        "jr t1",
        "nop",
        "2:",
        "unimp",
        ".cfi_endproc",
        set = sym set_thread_pointer,
    )
}
