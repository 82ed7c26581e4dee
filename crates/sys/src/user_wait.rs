//! Waits in user mode for a write to a cache line: `umwait` of Intel (WAITPKG), `mwaitx` of AMD
//! (MONITORX).
//!
//! A core that waits so leaves its units to its sibling, and takes less power than one that spins.
//! The kernel may shorten the waits by `umwait` (`/sys/devices/system/cpu/umwait_control`).
//! Sources: Intel SDM, volume 2 (UMONITOR, UMWAIT); AMD APM, volume 3 (MONITORX, MWAITX).

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::ffi::OsString;
use std::ptr;

use crate::{clock, environment};

/// The variable of the environment that asks for these waits.
const VARIABLE: &str = "DAIKO_USER_WAIT";

/// The proof that this processor has an instruction that waits in user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserWait(Instruction);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instruction {
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

impl UserWait {
    /// Returns the instruction that the processor offers, or the hypervisor lets it offer.
    pub fn detect() -> Option<Self> {
        Leaves::read().instruction().map(UserWait)
    }

    /// Returns the instruction by which agents wait: none, unless the environment has
    /// `DAIKO_USER_WAIT=1` and the processor offers one.
    ///
    /// # Errors
    ///
    /// The value of that variable, if it is another one.
    pub fn chosen() -> Result<Option<Self>, OsString> {
        let is_asked = environment::is_on(VARIABLE)?;
        Ok(is_asked.then(Self::detect).flatten())
    }

    /// Returns the name of the instruction.
    pub fn name(self) -> &'static str {
        match self.0 {
            Instruction::Umwait => "umwait",
            Instruction::Mwaitx => "mwaitx",
        }
    }

    /// Waits if `is_silent` returns true: until there is a write to the cache line of the first
    /// byte of `watched`, for `ticks` of the time stamp counter at most.
    ///
    /// A write after the look by `is_silent` ends the wait as well. A wait may end early, as by an
    /// interrupt, so the caller looks again.
    #[inline]
    pub fn wait_while<T>(self, watched: &T, ticks: u32, is_silent: impl FnOnce() -> bool) {
        const { assert!(size_of::<T>() > 0, "a value without bytes has no cache line") };
        let line = ptr::from_ref(watched).cast::<u8>();
        match self.0 {
            Instruction::Umwait => {
                let until = clock::ticks().wrapping_add(u64::from(ticks));
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
    use crate::atomic::{AtomicU32, Ordering};

    /// The longest wait of a test, in ticks: a second or so.
    const LONG: u32 = u32::MAX;

    fn offered() -> Option<UserWait> {
        let offered = UserWait::detect();
        if offered.is_none() {
            println!("skipped: this processor offers neither umwait nor mwaitx");
        }
        offered
    }

    #[test]
    fn the_feature_bits_name_the_instruction() {
        let of = |structured_ecx, extended_ecx| {
            Leaves { structured_ecx, extended_ecx }
                .instruction()
                .map(|found| UserWait(found).name())
        };
        assert_eq!(of(1 << 5, 0), Some("umwait"));
        assert_eq!(of(0, 1 << 29), Some("mwaitx"));
        assert_eq!(of(1 << 5, 1 << 29), Some("umwait"));
        assert_eq!(of(!(1 << 5), !(1 << 29)), None, "the other bits");
    }

    #[test]
    fn the_features_are_those_that_the_kernel_lists() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = text.lines().find(|line| line.starts_with("flags")).unwrap();
        let mut flags = flags.split_whitespace();
        let detected = UserWait::detect().map(UserWait::name);
        // A kernel may hide an instruction that the processor offers.
        match flags.find(|flag| ["waitpkg", "mwaitx"].contains(flag)) {
            Some("waitpkg") => assert_eq!(detected, Some("umwait")),
            Some(_) => assert!(detected.is_some()),
            None => println!("skipped: the kernel lists neither waitpkg nor mwaitx"),
        }
    }

    #[test]
    fn a_wait_without_a_write_ends() {
        let Some(user_wait) = offered() else { return };
        let word = AtomicU32::new(0);
        (0..1000).for_each(|_| user_wait.wait_while(&word, 1024, || true));
    }

    #[test]
    fn a_word_that_has_changed_is_not_waited_for() {
        let Some(user_wait) = offered() else { return };
        let mut looks = 0;
        for _ in 0..1000 {
            user_wait.wait_while(&0_u8, LONG, || {
                looks += 1;
                false
            });
        }
        assert_eq!(looks, 1000);
    }

    #[test]
    fn two_threads_pass_turns_by_writes_that_end_waits() {
        const TURNS: u32 = 200;
        let Some(user_wait) = offered() else { return };
        let word = AtomicU32::new(0);
        let play = |first: u32| {
            for turn in (first..TURNS).step_by(2) {
                // Acquire: pairs with the Release below.
                while word.load(Ordering::Acquire) != turn {
                    user_wait.wait_while(&word, LONG, || word.load(Ordering::Relaxed) != turn);
                }
                word.store(turn + 1, Ordering::Release);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| play(0));
            scope.spawn(|| play(1));
        });
        assert_eq!(word.load(Ordering::Relaxed), TURNS);
    }
}
