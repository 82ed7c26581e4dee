//! Waits in user mode: `umwait` of Intel (WAITPKG), `mwaitx` of AMD (MONITORX).

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instruction {
    Umwait,
    Mwaitx,
}

/// Features of the processor by `cpuid`; 0 for leaves that it lacks.
#[derive(Clone, Copy, Debug, Default)]
struct Leaves {
    /// Leaf 7, subleaf 0, ECX.
    structured_ecx: u32,
    /// Leaf 8000_0001h, ECX.
    extended_ecx: u32,
}

impl Instruction {
    /// Returns the instruction that the processor offers, or the hypervisor lets it offer.
    pub(crate) fn detect() -> Option<Self> {
        Leaves::read().instruction()
    }

    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Instruction::Umwait => "umwait",
            Instruction::Mwaitx => "mwaitx",
        }
    }

    /// Waits for a write to the line of a byte if `is_silent` returns true.
    ///
    /// # Safety
    ///
    /// The byte is readable.
    #[inline]
    pub(crate) unsafe fn wait_while(
        self,
        line: *const u8,
        ticks: u32,
        is_silent: impl FnOnce() -> bool,
    ) {
        match self {
            Instruction::Umwait => {
                let until = super::ticks().wrapping_add(u64::from(ticks));
                // SAFETY: the instruction exists, and the byte is readable.
                unsafe { umonitor(line) };
                if is_silent() {
                    // SAFETY: the instruction exists.
                    unsafe { umwait(until) };
                }
            }
            Instruction::Mwaitx => {
                // SAFETY: the instruction exists, and the byte is readable.
                unsafe { monitorx(line) };
                if is_silent() {
                    // SAFETY: the instruction exists.
                    unsafe { mwaitx(ticks) };
                }
            }
        }
    }
}

impl Leaves {
    fn read() -> Self {
        let has = |leaf: u32| __cpuid(leaf & 0x8000_0000).eax >= leaf;
        let structured_ecx = if has(7) { __cpuid_count(7, 0).ecx } else { 0 };
        let extended_ecx = if has(0x8000_0001) { __cpuid(0x8000_0001).ecx } else { 0 };
        Leaves { structured_ecx, extended_ecx }
    }

    fn instruction(self) -> Option<Instruction> {
        const WAITPKG: u32 = 1 << 5;
        const MONITORX: u32 = 1 << 29;
        if self.structured_ecx & WAITPKG != 0 {
            Some(Instruction::Umwait)
        } else if self.extended_ecx & MONITORX != 0 {
            Some(Instruction::Mwaitx)
        } else {
            None
        }
    }
}

// The assembly below is no `nomem`, so that the compiler moves no look across it.

/// Begins to watch the line of the byte.
///
/// # Safety
///
/// The processor has WAITPKG; the byte is readable.
#[inline]
unsafe fn umonitor(line: *const u8) {
    // SAFETY: as a load of the byte, which is readable.
    unsafe { asm!("umonitor {}", in(reg) line, options(nostack, preserves_flags)) };
}

/// Waits until the watched line is written or the time stamp counter has passed `until`.
///
/// # Safety
///
/// The processor has WAITPKG.
#[inline]
unsafe fn umwait(until: u64) {
    /// C0.1: the state that is left sooner.
    const LIGHT: u32 = 1;
    // SAFETY: it changes the flags only.
    unsafe {
        asm!(
            "umwait {:e}",
            in(reg) LIGHT,
            in("eax") until as u32,
            in("edx") (until >> 32) as u32,
            options(nostack),
        );
    }
}

/// Begins to watch the line of the byte.
///
/// # Safety
///
/// The processor has MONITORX; the byte is readable.
#[inline]
unsafe fn monitorx(line: *const u8) {
    // SAFETY: as a load of the byte, which is readable; without extensions and hints.
    unsafe {
        asm!(
            "monitorx",
            in("rax") line, in("ecx") 0, in("edx") 0,
            options(nostack, preserves_flags),
        );
    }
}

/// Waits until the watched line is written or for `ticks` of the time stamp counter.
///
/// # Safety
///
/// The processor has MONITORX.
#[inline]
unsafe fn mwaitx(ticks: u32) {
    /// Without a C-state: C0 is left soonest.
    const NO_CSTATE: u32 = 0xf0;
    /// EBX has the time.
    const TIMED: u32 = 2;
    // SAFETY: it changes no register; RBX, which the compiler keeps for itself, is put back.
    unsafe {
        asm!(
            "xchg {ticks:r}, rbx",
            "mwaitx",
            "xchg {ticks:r}, rbx",
            ticks = inout(reg) u64::from(ticks) => _,
            in("eax") NO_CSTATE, in("ecx") TIMED,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_feature_bits_name_the_instruction() {
        let of = |structured_ecx, extended_ecx| {
            Leaves { structured_ecx, extended_ecx }.instruction().map(Instruction::name)
        };
        assert_eq!(of(1 << 5, 0), Some("umwait"));
        assert_eq!(of(0, 1 << 29), Some("mwaitx"));
        assert_eq!(of(1 << 5, 1 << 29), Some("umwait"));
        assert_eq!(of(!(1 << 5), !(1 << 29)), None, "the other bits");
    }
}
