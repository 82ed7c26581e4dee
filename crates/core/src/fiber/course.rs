//! Where a fiber is in its course: what its worker's death leaves of it, where workers are processes.

use crate::sync::{AtomicU8, Ordering, const_fn};

/// In a call of the runtime, or suspended in one; or at its end.
const RUNTIME: u8 = 0;
/// In its own code.
const OWN_CODE: u8 = 1;
/// Suspended straight from its own code, or not begun.
const SUSPENDED: u8 = 2;
/// In a call of the runtime that it makes as it unwinds.
const UNWINDING: u8 = 3;
/// As UNWINDING, but its process has died meanwhile: nobody else can unwind it further.
const DOOMED: u8 = 4;

/// Whether a fiber is in its own code, where it leaves nothing half done.
///
/// | change | from | to |
/// |--------|------|----|
/// | resume | SUSPENDED | OWN_CODE |
/// | suspend | OWN_CODE | SUSPENDED |
/// | enter | OWN_CODE | RUNTIME; UNWINDING if it unwinds |
/// | unwind | RUNTIME | UNWINDING |
/// | leave | RUNTIME, UNWINDING | OWN_CODE |
/// | doom | UNWINDING | DOOMED |
/// | end | OWN_CODE | RUNTIME |
/// | lend | RUNTIME, UNWINDING | OWN_CODE |
/// | take back | OWN_CODE | as before the lend; UNWINDING if it unwinds |
///
/// From any other state a change is none: who suspends in a call goes on there, and a call inside of another is part
/// of it. Only who runs the fiber writes it, and who has waited for the end of that process reads it: after all of its
/// stores, which are in the order of the program as far as the compiler leaves them so.
///
/// Budget: one load and at most one store for each change, on a line that the worker owns.
#[derive(Debug)]
pub struct Course(AtomicU8);

/// What a call was at when it [lent](Course::lend) the course to the fiber's own code.
#[derive(Clone, Copy, Debug)]
#[must_use = "the call goes on by `take_back`"]
pub struct Lent(u8);

impl Course {
    const_fn! {
        /// Of no fiber.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Course(AtomicU8::new(RUNTIME))
        }
    }

    /// Makes the word that of a new fiber. Only while no other thread can reach it.
    #[inline]
    pub fn reset(&self) {
        self.0.store(SUSPENDED, Ordering::Relaxed);
    }

    /// The fiber goes on as it was when it suspended, or begins.
    #[inline]
    pub fn resume(&self) {
        let _ = self.change(SUSPENDED, OWN_CODE);
    }

    /// The fiber is about to suspend.
    #[inline]
    pub fn suspend(&self) {
        let _ = self.change(OWN_CODE, SUSPENDED);
    }

    /// The fiber is about to use what it shares with others, maybe as it `unwinds`: whether it comes from its own code,
    /// so that the end of this call is to [leave](Self::leave).
    #[inline]
    pub fn enter(&self, unwinds: bool) -> bool {
        if cfg!(weaken = "course-enter") {
            return true;
        }
        self.change(OWN_CODE, if unwinds { UNWINDING } else { RUNTIME })
            || cfg!(weaken = "course-nest")
    }

    /// The call is about to unwind.
    #[inline]
    pub fn unwind(&self) {
        let _ = self.change(RUNTIME, UNWINDING);
    }

    /// The call for which the fiber has [entered](Self::enter), from its own code, ends: nothing of it is half done, or
    /// needs its frames. False if the fiber cannot go on from there.
    #[inline]
    #[must_use]
    pub fn leave(&self) -> bool {
        let goes_on = self.0.load(Ordering::Relaxed) != DOOMED;
        if goes_on {
            self.set(OWN_CODE);
        }
        goes_on
    }

    /// The call goes on in another process than it was begun in, where a fiber that unwinds cannot: `std` counts panics by
    /// thread.
    pub fn doom(&self) {
        let _ = self.change(UNWINDING, DOOMED);
    }

    /// The fiber has come to the end of its own code: what is left is the runtime's, though destructors of locals may
    /// suspend in it.
    #[inline]
    pub fn end(&self) {
        let _ =
            self.change(OWN_CODE, if cfg!(weaken = "course-end") { SUSPENDED } else { RUNTIME });
    }

    /// The call is about to run own code of the fiber: nothing of it is half done.
    #[inline]
    pub fn lend(&self) -> Lent {
        let before = self.0.load(Ordering::Relaxed);
        let _ = self.change(RUNTIME, OWN_CODE) || self.change(UNWINDING, OWN_CODE);
        Lent(before)
    }

    /// The call goes on behind that code, or is unwound by it.
    #[inline]
    pub fn take_back(&self, lent: Lent, unwinds: bool) {
        if matches!(lent.0, RUNTIME | UNWINDING) && !cfg!(weaken = "course-take-back") {
            let _ = self.change(OWN_CODE, if unwinds { UNWINDING } else { lent.0 });
        }
    }

    /// Whether the fiber is in its own code; of one that is dead, for who has waited for its process.
    #[inline]
    pub fn is_in_own_code(&self) -> bool {
        self.0.load(Ordering::Relaxed) == OWN_CODE
    }

    /// Whether the fiber is in a call, or holds or has lent what others need. As [`is_in_own_code`](Self::is_in_own_code).
    #[inline]
    pub fn is_in_call(&self) -> bool {
        !matches!(self.0.load(Ordering::Relaxed), OWN_CODE | SUSPENDED)
    }

    /// Whether the fiber is in a call that it makes as it unwinds. As [`is_in_own_code`](Self::is_in_own_code).
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
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn begun() -> Course {
        let course = Course::new();
        course.reset();
        assert!(!course.is_in_own_code());
        course.resume();
        assert!(course.is_in_own_code());
        course
    }

    #[test]
    fn who_suspends_in_a_call_goes_on_there_and_who_leaves_it_is_back() {
        let course = begun();
        course.suspend();
        assert!(!course.is_in_own_code());
        course.resume();
        assert!(course.is_in_own_code());
        assert!(!course.is_in_call());
        assert!(course.enter(false));
        for change in [Course::suspend, Course::resume] {
            change(&course);
            assert!(!course.is_in_own_code() && course.is_in_call());
        }
        assert!(course.leave());
        assert!(course.is_in_own_code() && !course.is_in_call());
    }

    #[test]
    fn a_call_inside_of_another_is_part_of_it() {
        let course = begun();
        assert!(course.enter(false));
        assert!(!course.enter(true));
        assert!(!course.is_unwinding());
    }

    #[test]
    fn what_a_call_lends_is_as_before_once_it_is_back_unless_it_unwinds() {
        for unwinds in [false, true] {
            let course = begun();
            assert!(course.enter(unwinds));
            let lent = course.lend();
            assert!(course.is_in_own_code());
            assert!(course.enter(unwinds));
            assert!(course.leave());
            course.take_back(lent, unwinds);
            assert!(!course.is_in_own_code());
            assert_eq!(course.is_unwinding(), unwinds);
            let lent = course.lend();
            course.take_back(lent, true);
            assert!(course.is_unwinding());
        }
    }

    #[test]
    fn own_code_that_no_call_runs_is_nobodys_to_take_back() {
        let course = begun();
        let lent = course.lend();
        course.take_back(lent, false);
        assert!(course.is_in_own_code());
    }

    #[test]
    fn a_call_that_is_left_by_unwinding_unwinds_to_its_end() {
        let course = begun();
        course.unwind();
        assert!(course.is_in_own_code());
        assert!(course.enter(false));
        course.unwind();
        assert!(course.is_unwinding());
        assert!(course.leave());
        assert!(course.is_in_own_code());
    }

    #[test]
    fn a_fiber_that_has_come_to_its_end_is_not_in_its_own_code_again() {
        let course = begun();
        course.end();
        for suspends in [false, true] {
            if suspends {
                course.suspend();
                course.resume();
            }
            assert!(!course.enter(false));
            assert!(!course.is_in_own_code());
        }
    }

    #[test]
    fn who_unwinds_in_a_call_does_not_come_back_from_it_in_another_process() {
        for (unwinds, goes_on) in [(false, true), (true, false)] {
            let course = begun();
            assert!(course.enter(unwinds));
            course.doom();
            assert!(!course.enter(false) && !course.is_in_own_code());
            assert_eq!(course.leave(), goes_on);
            assert_eq!(course.is_in_own_code(), goes_on);
        }
    }
}
