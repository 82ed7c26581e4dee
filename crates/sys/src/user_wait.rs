//! Waits in user mode for a write to a cache line: `umwait` of Intel (WAITPKG), `mwaitx` of AMD
//! (MONITORX).
//!
//! A core that waits so leaves its units to its sibling, and takes less power than one that spins.
//! The kernel may shorten the waits by `umwait` (`/sys/devices/system/cpu/umwait_control`).
//! Sources: Intel SDM, volume 2 (UMONITOR, UMWAIT); AMD APM, volume 3 (MONITORX, MWAITX).

use std::ffi::OsString;
use std::ptr;

use crate::arch::Instruction;
use crate::environment;

/// The variable of the environment that asks for these waits.
const VARIABLE: &str = "DAIKO_USER_WAIT";

/// The proof that this processor has an instruction that waits in user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserWait(Instruction);

impl UserWait {
    /// Returns the instruction that the processor offers, or the hypervisor lets it offer.
    pub fn detect() -> Option<Self> {
        Instruction::detect().map(UserWait)
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
        self.0.name()
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
        // SAFETY: the byte is readable.
        unsafe { self.0.wait_while(line, ticks, is_silent) };
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
    fn the_features_are_those_that_the_kernel_lists() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
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
