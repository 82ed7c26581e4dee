//! Where a mover is in its course: what its worker's death leaves of it, where workers are processes.

use crate::sync::{AtomicU8, Ordering, const_fn};

/// In the runtime, or suspended there.
const IN_RUNTIME: u8 = 0;
/// In its own code.
const OWN_CODE: u8 = 1;
/// Suspended from its own code; not begun, or ended.
const SUSPENDED: u8 = 2;
/// It may hold or have lent what others need, for good.
const SHARING: u8 = 3;

/// Whether a fiber is in its own code, where it leaves nothing half done.
///
/// | change | from | to |
/// |--------|------|----|
/// | resume | SUSPENDED | OWN_CODE |
/// | suspend | OWN_CODE | SUSPENDED |
/// | enter | OWN_CODE | IN_RUNTIME |
/// | leave | IN_RUNTIME | OWN_CODE |
/// | share | OWN_CODE, IN_RUNTIME | SHARING |
///
/// From any other state a change is none: who suspends in the runtime goes on there. Only who runs the fiber writes it,
/// and who has waited for the end of that process reads it: after all of its stores, which are in the order of the
/// program as far as the compiler leaves them so.
///
/// Budget: one load and at most one store for each change, on a line that the worker owns.
#[derive(Debug)]
pub struct Course(AtomicU8);

impl Course {
    const_fn! {
        /// Of no fiber.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Course(AtomicU8::new(IN_RUNTIME))
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
        self.change(SUSPENDED, OWN_CODE);
    }

    /// The fiber is about to suspend, or to end.
    #[inline]
    pub fn suspend(&self) {
        self.change(OWN_CODE, SUSPENDED);
    }

    /// The fiber is about to use what it shares with others.
    #[inline]
    pub fn enter(&self) {
        if !cfg!(weaken = "course-enter") {
            self.change(OWN_CODE, IN_RUNTIME);
        }
    }

    /// The fiber has done what it has entered for: nothing of that is half done, or needs its frames.
    #[inline]
    pub fn leave(&self) {
        self.change(IN_RUNTIME, OWN_CODE);
    }

    /// The fiber is about to hold or lend what others need, for longer than a call.
    #[inline]
    pub fn share(&self) {
        if !cfg!(weaken = "course-share") {
            self.change(OWN_CODE, SHARING);
            self.change(IN_RUNTIME, SHARING);
        }
    }

    /// Whether the fiber's worker died in the fiber's own code. For who has waited for that process.
    pub fn was_in_own_code(&self) -> bool {
        self.0.load(Ordering::Relaxed) == OWN_CODE
    }

    /// Whether the fiber may hold or have lent what others need. As [`was_in_own_code`](Self::was_in_own_code).
    pub fn is_sharing(&self) -> bool {
        self.0.load(Ordering::Relaxed) == SHARING
    }

    #[inline]
    fn change(&self, from: u8, to: u8) {
        keep_order();
        if self.0.load(Ordering::Relaxed) == from {
            self.0.store(to, Ordering::Relaxed);
        }
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
        assert!(!course.was_in_own_code());
        course.resume();
        assert!(course.was_in_own_code());
        course
    }

    #[test]
    fn who_suspends_in_the_runtime_goes_on_there_and_who_leaves_it_is_back() {
        let course = begun();
        course.suspend();
        assert!(!course.was_in_own_code());
        course.resume();
        assert!(course.was_in_own_code());
        course.enter();
        for change in [Course::suspend, Course::resume] {
            change(&course);
            assert!(!course.was_in_own_code());
        }
        course.leave();
        assert!(course.was_in_own_code());
    }

    #[test]
    fn who_shares_does_not_come_back() {
        for before in [Course::enter, Course::leave] {
            let course = begun();
            before(&course);
            course.share();
            for change in [Course::leave, Course::suspend, Course::resume, Course::enter] {
                change(&course);
                assert!(!course.was_in_own_code());
            }
        }
    }

    #[test]
    fn a_fiber_that_has_ended_does_not_come_back_by_leaving() {
        let course = begun();
        course.suspend();
        course.enter();
        course.leave();
        assert!(!course.was_in_own_code());
    }
}
