//! x86-64, System V ABI.
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
//! floating-point units change with `switch_fp` only.
//!
//! # Why `pop; jmp` and not `ret`
//!
//! The processor predicts that a `ret` returns to the last `call`, which is on the stack being
//! left. Every switch would be mispredicted: 11.4 ns instead of 2.2 ns.

use std::arch::{asm, naked_asm};
use std::ptr;

/// The saved state of a context that is not running, as the address of its frame.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackPointer(*mut u8);

impl StackPointer {
    /// Refers to no context. The initial value of a place that [`switch`] saves to.
    pub const NULL: Self = Self(ptr::null_mut());

    /// The address, for debuggers and reports.
    pub fn addr(self) -> usize {
        self.0.addr()
    }
}

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
            // The compiler uses these two and does not let assembly clobber them.
            "push rbp",
            "push rbx",
            // The address to continue at goes through a register, as position-independent code has
            // no `push` of an address.
            "lea rax, [rip + 2f]",
            "push rax",
            // The frame is complete: from here on the stack pointer describes this context.
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
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
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
    // SAFETY: see `switch`. `others` is read before the stack is left.
    unsafe {
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
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
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
    let frame = [first_frame as *const (), entry as *const (), arg.cast_const().cast()];
    // SAFETY: the caller guarantees room for more than these three words below `top`, which is
    // aligned for them.
    unsafe {
        let bottom = top.cast::<[*const (); 3]>().sub(1);
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

/// Announces a write to the cache line at `address`, so that a later read and write of it cost one
/// transfer between processors, not two. A hint, valid for any address.
#[inline(always)]
pub fn prefetch_write(address: *const u8) {
    // SAFETY: a prefetch neither faults nor changes memory. The intrinsic with this hint is a
    // prefetch for reading unless the compiler may use `prefetchw`; processors without `prefetchw`
    // execute it as a no-op.
    unsafe {
        asm!(
            "prefetchw byte ptr [{}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}

/// Number of bytes that [`first_hit_sse2`] and [`first_hit_avx2`] examine in one step.
pub(crate) const BLOCK: usize = 128;

/// The index of the first of `count` blocks in which `words & masks` has a bit; `count` if there is
/// none.
///
/// # Safety
///
/// Both arrays are readable for `count` blocks (other threads may write them meanwhile), and
/// `words` is a multiple of 16.
#[inline]
pub(crate) unsafe fn first_hit_sse2(words: *const u8, masks: *const u8, count: usize) -> usize {
    let mut left = count;
    // SAFETY: the loop advances by a block per iteration, at most `count` times, and only reads.
    // Every x86-64 has SSE2.
    unsafe {
        asm!(
            "pxor xmm8, xmm8",
            "test {left}, {left}",
            "jz 3f",
            "2:",
            // Masks may be unaligned, so they use the unaligned loads; words are the memory
            // operands, which SSE requires to be aligned.
            "movdqu xmm0, [{masks}]",
            "movdqu xmm1, [{masks} + 16]",
            "movdqu xmm2, [{masks} + 32]",
            "movdqu xmm3, [{masks} + 48]",
            "movdqu xmm4, [{masks} + 64]",
            "movdqu xmm5, [{masks} + 80]",
            "movdqu xmm6, [{masks} + 96]",
            "movdqu xmm7, [{masks} + 112]",
            "pand xmm0, [{words}]",
            "pand xmm1, [{words} + 16]",
            "pand xmm2, [{words} + 32]",
            "pand xmm3, [{words} + 48]",
            "pand xmm4, [{words} + 64]",
            "pand xmm5, [{words} + 80]",
            "pand xmm6, [{words} + 96]",
            "pand xmm7, [{words} + 112]",
            // A tree, so that the eight registers do not wait for each other.
            "por xmm0, xmm1",
            "por xmm2, xmm3",
            "por xmm4, xmm5",
            "por xmm6, xmm7",
            "por xmm0, xmm2",
            "por xmm4, xmm6",
            "por xmm0, xmm4",
            // SSE2 has no test for zero: compare the bytes and gather the results.
            "pcmpeqb xmm0, xmm8",
            "pmovmskb {found:e}, xmm0",
            "cmp {found:e}, 0xffff",
            "jne 3f",
            "add {words}, 128",
            "add {masks}, 128",
            "dec {left}",
            "jnz 2b",
            "3:",
            words = inout(reg) words => _,
            masks = inout(reg) masks => _,
            left = inout(reg) left,
            found = out(reg) _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _,
            options(nostack, readonly),
        );
    }
    count - left
}

/// [`first_hit_sse2`] with registers of twice the width.
///
/// # Safety
///
/// Both arrays are readable for `count` blocks (other threads may write them meanwhile), `words` is
/// a multiple of 32, and the processor has AVX2.
#[inline]
pub(crate) unsafe fn first_hit_avx2(words: *const u8, masks: *const u8, count: usize) -> usize {
    let mut left = count;
    // SAFETY: the loop advances by a block per iteration, at most `count` times, and only reads;
    // the caller has checked for AVX2.
    unsafe {
        asm!(
            "test {left}, {left}",
            "jz 3f",
            "2:",
            "vmovdqa ymm0, [{words}]",
            "vmovdqa ymm1, [{words} + 32]",
            "vmovdqa ymm2, [{words} + 64]",
            "vmovdqa ymm3, [{words} + 96]",
            "vpand ymm0, ymm0, [{masks}]",
            "vpand ymm1, ymm1, [{masks} + 32]",
            "vpand ymm2, ymm2, [{masks} + 64]",
            "vpand ymm3, ymm3, [{masks} + 96]",
            "vpor ymm0, ymm0, ymm1",
            "vpor ymm2, ymm2, ymm3",
            "vpor ymm0, ymm0, ymm2",
            "vptest ymm0, ymm0",
            "jnz 3f",
            "add {words}, 128",
            "add {masks}, 128",
            "dec {left}",
            "jnz 2b",
            "3:",
            // Upper halves in use would slow down SSE code, as each of its instructions would have
            // to merge them.
            "vzeroupper",
            words = inout(reg) words => _,
            masks = inout(reg) masks => _,
            left = inout(reg) left,
            // All sixteen, as `vzeroupper` clears their upper halves.
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
            out("xmm15") _,
            options(nostack, readonly),
        );
    }
    count - left
}
