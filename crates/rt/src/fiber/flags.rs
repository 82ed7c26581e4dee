//! The flags of a fiber.

use std::cell::Cell;

/// State of a fiber that its suspensions have to look at.
///
/// ```text
/// 31       30            29       28          27       26        25       15       14
/// | CANCEL | INTERRUPTED | PLACED | UNWINDING | RAISED | COUNTED | shield | SCOPED | no_suspend |
/// ```
///
/// Bits 25 to 16 count the nesting of `cancel::shield`, bits 14 to 0 that of `no_suspend`.
///
/// Only the worker that runs the fiber, or its agent, touches the word; before the start, the
/// thread that has the fiber. Of a migratable fiber that has left its worker: the thread that made
/// it active, which has it alone.
#[derive(Debug)]
pub struct Flags(Cell<u32>);

/// The fiber must unwind at its next suspension.
const CANCEL: u32 = 1 << 31;
/// A cancel or a timer, not its waker, ended the fiber's suspension.
const INTERRUPTED: u32 = 1 << 30;
/// The worker of an unstarted fiber was chosen: it starts where its message takes it.
const PLACED: u32 = 1 << 29;
/// The fiber was unwinding when it suspended last. It is then not cancelled, and a migratable fiber
/// stays on its worker, as the count of panics belongs to the thread.
const UNWINDING: u32 = 1 << 28;
/// The cancel has been raised: if the thread panics, then because of it.
const RAISED: u32 = 1 << 27;
/// The fiber is suspended while it unwinds, and its worker counts it.
const COUNTED: u32 = 1 << 26;
/// Nesting of `cancel::shield`.
const SHIELDS: u32 = ((1 << 10) - 1) << 16;
/// The fiber is in a cancel scope: it looks at each suspension whether the scope has ended.
const SCOPED: u32 = 1 << 15;
/// Nesting of `no_suspend`.
const NO_SUSPENDS: u32 = (1 << 15) - 1;

/// The marks of an unwind. They stay until the next suspension on a thread that does not panic.
const UNWINDS: u32 = UNWINDING | RAISED;

/// The flags of a fiber at the entry of a cancel scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryFlags(u32);

/// How a suspension ended.
#[must_use]
pub(super) struct Resumption {
    /// The waker ended it, not a cancel or timer.
    pub(super) is_woken: bool,
    /// The worker counts the fiber as one that is suspended while it unwinds.
    pub(super) is_counted: bool,
}

impl Flags {
    pub(super) const fn new() -> Self {
        Flags(Cell::new(0))
    }

    /// Resets the word for a new fiber.
    pub(super) fn reset(&self) {
        self.0.set(0);
    }

    /// Returns true if there is any flag, so that a suspension has to look at them.
    #[inline(always)]
    pub fn has_any(&self) -> bool {
        self.0.get() != 0
    }

    /// Returns true if the fiber must unwind, shielded or not.
    #[inline(always)]
    pub fn is_cancelled(&self) -> bool {
        self.has(CANCEL)
    }

    /// Returns true if the fiber must unwind at its next suspension, as it is not shielded.
    pub(super) fn is_cancel_due(&self) -> bool {
        self.0.get() & (CANCEL | SHIELDS) == CANCEL
    }

    /// Returns true if the fiber is cancelled or in a cancel scope, and not unwinding already.
    pub(super) fn may_unwind(&self) -> bool {
        // A fiber that has caught the payload is recognized where the thread does not panic.
        self.has(CANCEL | SCOPED) && !self.is_unwinding()
    }

    /// Returns true if the fiber was unwinding when it suspended last.
    #[inline]
    pub(super) fn was_unwinding(&self) -> bool {
        self.has(UNWINDING)
    }

    /// Returns true if the fiber is known to unwind: it did when it suspended last, or a cancel has
    /// been raised since.
    pub(super) fn is_unwinding(&self) -> bool {
        self.has(UNWINDS)
    }

    /// Returns true if a cancel unwinds the fiber.
    pub(super) fn is_raised(&self) -> bool {
        self.has(RAISED)
    }

    /// Returns true if the fiber is inside `no_suspend`.
    pub fn is_no_suspend(&self) -> bool {
        self.has(NO_SUSPENDS)
    }

    /// Returns true if the worker of the fiber, which has not started, was chosen.
    pub(crate) fn is_placed(&self) -> bool {
        self.has(PLACED)
    }

    /// Records that the worker of the fiber, which has not started, was chosen.
    pub(crate) fn place(&self) {
        self.add(PLACED);
    }

    /// Forgets that the worker of the fiber was chosen. Returns true if it was.
    #[inline]
    #[must_use]
    pub(crate) fn take_placed(&self) -> bool {
        let is_placed = self.is_placed();
        if is_placed {
            self.remove(PLACED);
        }
        is_placed
    }

    /// Makes the fiber unwind at its next suspension, or not start at all.
    #[inline]
    pub(super) fn cancel(&self) {
        self.add(CANCEL);
    }

    /// Records that a cancel ended the fiber's suspension.
    pub(super) fn end_by_cancel(&self) {
        self.add(CANCEL | INTERRUPTED);
    }

    /// Records that a timer, or the end of a scope, ended the fiber's suspension.
    #[inline]
    pub(super) fn end_by_interrupt(&self) {
        self.add(INTERRUPTED);
    }

    /// Records that the fiber unwinds by a cancel.
    pub(super) fn raise(&self) {
        self.add(RAISED);
    }

    /// Records that the fiber unwinds, and that its worker counts it until it is resumed.
    pub(super) fn suspend_unwinding(&self) {
        self.add(UNWINDING | COUNTED);
    }

    /// Records that the fiber, which has a count of panics of its own, unwinds.
    pub(super) fn suspend_own_unwinding(&self) {
        self.add(UNWINDING);
    }

    /// Removes the flags of the last suspension, and returns how it ended.
    #[inline]
    pub(super) fn complete_suspension(&self) -> Resumption {
        let flags = self.0.get();
        self.0.set(flags & !(INTERRUPTED | COUNTED));
        Resumption { is_woken: flags & INTERRUPTED == 0, is_counted: flags & COUNTED != 0 }
    }

    /// Records that the fiber does not unwind: its thread does not panic.
    pub(super) fn end_unwind(&self) {
        self.remove(UNWINDS);
    }

    /// Records that the fiber is in a cancel scope.
    pub(super) fn enter_scope(&self) {
        self.add(SCOPED);
    }

    /// Records that the fiber has left its outermost cancel scope.
    pub(super) fn leave_scopes(&self) {
        self.remove(SCOPED);
    }

    /// Returns the flags that a cancel scope keeps from its entry.
    pub(super) fn at_entry(&self) -> EntryFlags {
        EntryFlags(self.0.get())
    }

    /// Ends an unwind that began in the scope entered with these flags: the fiber unwinds if it did
    /// at the entry.
    pub(super) fn restore_unwind(&self, entry: EntryFlags) {
        self.0.update(|flags| flags & !UNWINDS | entry.0 & UNWINDS);
    }

    /// Returns true if the fiber is in as many shields as at the entry.
    pub(super) fn is_shielded_as(&self, entry: EntryFlags) -> bool {
        (self.0.get() ^ entry.0) & SHIELDS == 0
    }

    /// Forgets the state that the fiber's frames have nested, because the fiber never goes on in
    /// them.
    pub(super) fn leave_frames(&self) {
        self.0.update(|flags| flags & CANCEL);
    }

    /// Runs `body`, in which the fiber is not unwound by a cancel. Only the fiber.
    ///
    /// # Panics
    ///
    /// If 1,023 shields are around it.
    pub fn shield<R>(&self, body: impl FnOnce() -> R) -> R {
        self.nested(SHIELDS, "shield", body)
    }

    /// Runs `body`, in which the fiber must not suspend. Only the fiber.
    ///
    /// # Panics
    ///
    /// If 32,767 such calls are around it.
    pub(super) fn no_suspend<R>(&self, body: impl FnOnce() -> R) -> R {
        self.nested(NO_SUSPENDS, "no_suspend", body)
    }

    /// Begins a part in which the fiber must not suspend. Returns false if too many are around it.
    /// Only the fiber.
    #[must_use]
    pub fn begin_no_suspend(&self) -> bool {
        let has_room = self.0.get() & NO_SUSPENDS != NO_SUSPENDS;
        self.0.update(|flags| flags + u32::from(has_room));
        has_room
    }

    /// Ends a part in which the fiber must not suspend. Returns false if there is none. Only the
    /// fiber.
    #[must_use]
    pub fn end_no_suspend(&self) -> bool {
        let is_inside = self.is_no_suspend();
        self.0.update(|flags| flags - u32::from(is_inside));
        is_inside
    }

    /// Forgets that the fiber was cancelled. Returns true if it was. Only the fiber, which runs
    /// code that is not unwound by a cancel.
    pub(super) fn clear_cancel(&self) -> bool {
        let was_cancelled = self.is_cancelled();
        self.remove(CANCEL | RAISED);
        was_cancelled
    }

    /// Runs `body`, and counts it in the bits of `count`.
    fn nested<R>(&self, count: u32, call: &str, body: impl FnOnce() -> R) -> R {
        struct Leave<'f>(&'f Flags, u32);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.0.update(|flags| flags - self.1);
            }
        }
        let unit = count & count.wrapping_neg();
        assert!(self.0.get() & count != count, "daiko: {call} nested too deep");
        self.0.update(|flags| flags + unit);
        let _leave = Leave(self, unit);
        body()
    }

    #[inline(always)]
    fn has(&self, flags: u32) -> bool {
        self.0.get() & flags != 0
    }

    #[inline(always)]
    fn add(&self, flags: u32) {
        self.0.update(|before| before | flags);
    }

    #[inline(always)]
    fn remove(&self, flags: u32) {
        self.0.update(|before| before & !flags);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{self, AssertUnwindSafe};

    use super::*;

    #[test]
    fn the_parts_of_the_word_are_disjoint() {
        let parts = [CANCEL, INTERRUPTED, PLACED, UNWINDING, RAISED, COUNTED, SHIELDS, SCOPED];
        let all = parts.into_iter().fold(NO_SUSPENDS, |all, part| {
            assert_eq!(all & part, 0);
            all | part
        });
        assert_eq!(all, u32::MAX);
    }

    #[test]
    fn a_suspension_tells_once_how_it_ended() {
        let flags = Flags::new();
        flags.suspend_unwinding();
        flags.end_by_cancel();
        let end = flags.complete_suspension();
        assert!(!end.is_woken && end.is_counted);
        let end = flags.complete_suspension();
        assert!(end.is_woken && !end.is_counted);
        assert!(flags.is_cancelled() && flags.was_unwinding());
        assert!(!flags.may_unwind(), "it unwinds already");
        flags.end_unwind();
        assert!(flags.may_unwind() && flags.is_cancel_due());
    }

    #[test]
    fn nested_calls_are_counted_apart_and_left_by_an_unwind() {
        let flags = Flags::new();
        flags.cancel();
        let entry = flags.at_entry();
        let unwound = panic::catch_unwind(AssertUnwindSafe(|| {
            flags.no_suspend(|| {
                assert!(flags.is_no_suspend() && flags.is_cancel_due());
                flags.shield(|| {
                    flags.shield(|| assert!(!flags.is_shielded_as(entry)));
                    assert!(flags.is_cancelled() && !flags.is_cancel_due());
                    panic!("left by an unwind");
                })
            })
        }));
        assert!(unwound.is_err() && flags.is_shielded_as(entry) && !flags.is_no_suspend());
    }

    #[test]
    fn a_part_without_suspensions_is_begun_and_ended_within_its_bits() {
        let flags = Flags::new();
        flags.cancel();
        assert!(!flags.end_no_suspend(), "none has begun");
        assert!(flags.begin_no_suspend() && flags.is_no_suspend() && flags.end_no_suspend());
        flags.0.set(NO_SUSPENDS | CANCEL);
        assert!(!flags.begin_no_suspend(), "no room for one more");
        assert_eq!(flags.0.get(), NO_SUSPENDS | CANCEL);
    }

    #[test]
    fn a_cleared_cancel_leaves_the_other_flags() {
        let flags = Flags::new();
        assert!(!flags.clear_cancel());
        flags.0.set(u32::MAX);
        assert!(flags.clear_cancel() && !flags.clear_cancel());
        assert_eq!(flags.0.get(), !(CANCEL | RAISED));
    }

    #[test]
    fn a_count_does_not_reach_the_flags_beside_it() {
        let flags = Flags::new();
        flags.0.set(SHIELDS);
        let refused = panic::catch_unwind(AssertUnwindSafe(|| flags.shield(|| ())));
        assert!(refused.is_err() && flags.0.get() == SHIELDS);
        flags.0.set(NO_SUSPENDS);
        let refused = panic::catch_unwind(AssertUnwindSafe(|| flags.no_suspend(|| ())));
        assert!(refused.is_err() && flags.0.get() == NO_SUSPENDS);
    }

    #[test]
    fn an_unwind_out_of_a_scope_leaves_the_unwind_around_it() {
        for unwinds in [false, true] {
            let flags = Flags::new();
            if unwinds {
                flags.raise();
            }
            let entry = flags.at_entry();
            flags.enter_scope();
            flags.raise();
            flags.suspend_unwinding();
            flags.restore_unwind(entry);
            assert!(flags.is_raised() == unwinds && !flags.was_unwinding());
            flags.leave_frames();
            assert!(!flags.has_any() || flags.is_cancelled());
        }
    }

    #[test]
    fn a_chosen_worker_is_forgotten_once() {
        let flags = Flags::new();
        flags.place();
        assert!(flags.is_placed() && flags.take_placed());
        assert!(!flags.take_placed() && !flags.has_any());
    }
}
