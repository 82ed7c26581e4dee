//! The execution mode of a fiber: how much of its work the death of its worker leaves half done,
//! where workers are processes.
//!
//! A *runtime section* is the part of a public function of the runtime that touches shared state;
//! all other code of the fiber is *user code*.

use crate::atomic::{AtomicU8, Ordering, const_fn};

/// Runtime section, also while suspended in it; and the end of the fiber.
const RUNTIME: u8 = 0;
/// User code.
const USER_CODE: u8 = 1;
/// Suspended straight from user code, or not begun.
const SUSPENDED: u8 = 2;
/// Runtime section that the fiber entered as it unwinds.
const UNWINDING: u8 = 3;
/// Section as for [`UNWINDING`], but its process has died meanwhile: no other process can unwind it
/// further.
const DOOMED: u8 = 4;

/// Says whether a fiber is in user code, where it leaves nothing half done.
///
/// | change | from | to |
/// |--------|------|----|
/// | resume | SUSPENDED | USER_CODE |
/// | suspend | USER_CODE | SUSPENDED |
/// | enter | USER_CODE | RUNTIME; UNWINDING if it unwinds |
/// | unwind | RUNTIME | UNWINDING |
/// | leave | RUNTIME, UNWINDING | USER_CODE |
/// | doom | UNWINDING | DOOMED |
/// | end | USER_CODE | RUNTIME |
/// | lend | RUNTIME, UNWINDING | USER_CODE |
/// | take back | USER_CODE | as before the lend; UNWINDING if it unwinds |
///
/// From any other state a change has no effect: a fiber that suspends in a runtime section goes on
/// there, and a section inside another is part of it. Only the worker that runs the fiber writes
/// the word. Its reader has waited for the end of that process, and so reads it after all of its
/// stores. Those are in program order as far as the compiler leaves them so.
///
/// Budget: one load and at most one store for each change, on a line that the worker owns.
#[derive(Debug)]
pub struct ExecMode(AtomicU8);

/// The state of a runtime section when it [lent](ExecMode::lend) the fiber to user code.
#[derive(Clone, Copy, Debug)]
#[must_use = "the call goes on by `take_back`"]
pub struct Lent(u8);

impl ExecMode {
    const_fn! {
        /// Creates the word of a fiber that does not exist yet.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            ExecMode(AtomicU8::new(RUNTIME))
        }
    }

    /// Resets the word for a new fiber. Only while no other thread can reach it.
    #[inline]
    pub fn reset(&self) {
        self.0.store(SUSPENDED, Ordering::Relaxed);
    }

    /// Records that the fiber goes on as it was when it suspended, or begins.
    #[inline]
    pub fn resume(&self) {
        let _ = self.change(SUSPENDED, USER_CODE);
    }

    /// Records that the fiber is about to suspend.
    #[inline]
    pub fn suspend(&self) {
        let _ = self.change(USER_CODE, SUSPENDED);
    }

    /// Enters a runtime section: the fiber is about to use shared state, maybe as it `unwinds`.
    /// Returns true if it comes from user code, so that the end of this section has to
    /// [leave](Self::leave).
    #[inline]
    pub fn enter(&self, unwinds: bool) -> bool {
        if cfg!(weaken = "exec-mode-enter") {
            return true;
        }
        self.change(USER_CODE, if unwinds { UNWINDING } else { RUNTIME })
            || cfg!(weaken = "exec-mode-nest")
    }

    /// Records that the runtime section is about to unwind.
    #[inline]
    pub fn unwind(&self) {
        let _ = self.change(RUNTIME, UNWINDING);
    }

    /// Leaves the runtime section that the fiber has [entered](Self::enter) from user code: nothing
    /// of it is half done, or needs its frames. Returns false if the fiber cannot go on from there.
    #[inline]
    #[must_use]
    pub fn leave(&self) -> bool {
        let goes_on = self.0.load(Ordering::Relaxed) != DOOMED;
        if goes_on {
            self.set(USER_CODE);
        }
        goes_on
    }

    /// Records that the runtime section goes on in another process than it was begun in. A fiber
    /// that unwinds cannot go on there: `std` counts panics by thread.
    pub fn doom(&self) {
        let _ = self.change(UNWINDING, DOOMED);
    }

    /// Records that the user code of the fiber has ended. The rest belongs to the runtime, though
    /// destructors of locals may suspend in it.
    #[inline]
    pub fn end(&self) {
        let _ = self
            .change(USER_CODE, if cfg!(weaken = "exec-mode-end") { SUSPENDED } else { RUNTIME });
    }

    /// Lends the fiber to user code that the runtime section is about to run: nothing of the
    /// section is half done.
    #[inline]
    pub fn lend(&self) -> Lent {
        let before = self.0.load(Ordering::Relaxed);
        let _ = self.change(RUNTIME, USER_CODE) || self.change(UNWINDING, USER_CODE);
        Lent(before)
    }

    /// Ends a [`lend`](Self::lend): the runtime section goes on, or is unwound by the user code.
    #[inline]
    pub fn take_back(&self, lent: Lent, unwinds: bool) {
        if matches!(lent.0, RUNTIME | UNWINDING) && !cfg!(weaken = "exec-mode-take-back") {
            let _ = self.change(USER_CODE, if unwinds { UNWINDING } else { lent.0 });
        }
    }

    /// Returns true if the fiber is in user code. For a fiber that is dead, the caller must have
    /// waited for the end of its process.
    #[inline]
    pub fn is_in_own_code(&self) -> bool {
        self.0.load(Ordering::Relaxed) == USER_CODE
    }

    /// Returns true if the fiber is in a runtime section, or holds or has lent something that other
    /// fibers need. Condition as for [`is_in_own_code`](Self::is_in_own_code).
    #[inline]
    pub fn is_in_call(&self) -> bool {
        !matches!(self.0.load(Ordering::Relaxed), USER_CODE | SUSPENDED)
    }

    /// Returns true if the fiber is in a runtime section that it entered as it unwinds. Condition
    /// as for [`is_in_own_code`](Self::is_in_own_code).
    #[inline]
    pub fn is_unwinding(&self) -> bool {
        self.0.load(Ordering::Relaxed) == UNWINDING
    }

    #[inline]
    fn change(&self, from: u8, to: u8) -> bool {
        let changes = self.0.load(Ordering::Relaxed) == from;
        if changes {
            self.set(to);
        }
        changes
    }

    #[inline]
    fn set(&self, to: u8) {
        keep_order();
        self.0.store(to, Ordering::Relaxed);
        keep_order();
    }
}

/// Keeps the compiler from moving stores from one side to the other. Loom has no such compiler.
#[inline]
fn keep_order() {
    #[cfg(not(loom))]
    crate::atomic::compiler_fence(Ordering::SeqCst);
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn begun() -> ExecMode {
        let exec_mode = ExecMode::new();
        exec_mode.reset();
        assert!(!exec_mode.is_in_own_code());
        exec_mode.resume();
        assert!(exec_mode.is_in_own_code());
        exec_mode
    }

    #[test]
    fn a_fiber_that_suspends_in_a_call_resumes_in_it() {
        let exec_mode = begun();
        exec_mode.suspend();
        assert!(!exec_mode.is_in_own_code());
        exec_mode.resume();
        assert!(exec_mode.is_in_own_code());
        assert!(!exec_mode.is_in_call());
        assert!(exec_mode.enter(false));
        for change in [ExecMode::suspend, ExecMode::resume] {
            change(&exec_mode);
            assert!(!exec_mode.is_in_own_code() && exec_mode.is_in_call());
        }
        assert!(exec_mode.leave());
        assert!(exec_mode.is_in_own_code() && !exec_mode.is_in_call());
    }

    #[test]
    fn a_call_inside_of_another_is_part_of_it() {
        let exec_mode = begun();
        assert!(exec_mode.enter(false));
        assert!(!exec_mode.enter(true));
        assert!(!exec_mode.is_unwinding());
    }

    #[test]
    fn the_mode_is_restored_after_a_callback_unless_it_unwinds() {
        for unwinds in [false, true] {
            let exec_mode = begun();
            assert!(exec_mode.enter(unwinds));
            let lent = exec_mode.lend();
            assert!(exec_mode.is_in_own_code());
            assert!(exec_mode.enter(unwinds));
            assert!(exec_mode.leave());
            exec_mode.take_back(lent, unwinds);
            assert!(!exec_mode.is_in_own_code());
            assert_eq!(exec_mode.is_unwinding(), unwinds);
            let lent = exec_mode.lend();
            exec_mode.take_back(lent, true);
            assert!(exec_mode.is_unwinding());
        }
    }

    #[test]
    fn own_code_that_no_call_runs_is_nobodys_to_take_back() {
        let exec_mode = begun();
        let lent = exec_mode.lend();
        exec_mode.take_back(lent, false);
        assert!(exec_mode.is_in_own_code());
    }

    #[test]
    fn a_call_that_is_left_by_unwinding_unwinds_to_its_end() {
        let exec_mode = begun();
        exec_mode.unwind();
        assert!(exec_mode.is_in_own_code());
        assert!(exec_mode.enter(false));
        exec_mode.unwind();
        assert!(exec_mode.is_unwinding());
        assert!(exec_mode.leave());
        assert!(exec_mode.is_in_own_code());
    }

    #[test]
    fn a_fiber_that_has_come_to_its_end_is_not_in_its_own_code_again() {
        let exec_mode = begun();
        exec_mode.end();
        for suspends in [false, true] {
            if suspends {
                exec_mode.suspend();
                exec_mode.resume();
            }
            assert!(!exec_mode.enter(false));
            assert!(!exec_mode.is_in_own_code());
        }
    }

    #[test]
    fn a_fiber_that_unwinds_in_a_call_stays_in_its_process() {
        for (unwinds, goes_on) in [(false, true), (true, false)] {
            let exec_mode = begun();
            assert!(exec_mode.enter(unwinds));
            exec_mode.doom();
            assert!(!exec_mode.enter(false) && !exec_mode.is_in_own_code());
            assert_eq!(exec_mode.leave(), goes_on);
            assert_eq!(exec_mode.is_in_own_code(), goes_on);
        }
    }
}
