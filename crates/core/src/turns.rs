//! Whose turn it is: how often a worker's picks come from the next slot, its two queues, and what
//! its agent polls.

use std::cell::Cell;

/// Picks in a row that may come from the next slot.
pub const STREAK: u32 = 16;
/// Picks between two looks at the sources.
pub const PICKS: u32 = 61;

/// What one worker counts of its picks, so that one fiber that is always runnable starves nobody.
///
/// - One of [`STREAK`] picks in a row comes from the queues, if they have a fiber.
/// - Before one of [`PICKS`] picks in a row, and before the first after a tick, the sources are
///   polled.
/// - Of two picks in a row from the queues each queue is asked first once.
///
/// Budget of a pick: a load and a store on a line that the worker owns; no clock.
///
/// ```
/// use daiko_core::turns::{STREAK, Turns};
///
/// let turns = Turns::new();
/// assert!(!turns.take_credit() && turns.start_streak(false), "the sources come first of all");
/// for _ in 1..STREAK {
///     assert!(turns.take_credit());
/// }
/// assert!(!turns.take_credit() && !turns.start_streak(false));
/// ```
#[derive(Debug, Default)]
pub struct Turns {
    /// Picks left of the streak.
    credit: Cell<u32>,
    /// Picks until the sources are polled, beyond the credit.
    picks_left: Cell<u32>,
    /// Which queue was asked first at the last pick from them.
    second_first: Cell<bool>,
}

impl Turns {
    /// The first pick polls the sources.
    pub const fn new() -> Self {
        Turns { credit: Cell::new(0), picks_left: Cell::new(0), second_first: Cell::new(false) }
    }

    /// Counts a pick that may come from the next slot; false if none may: the pick starts a streak.
    #[inline]
    #[must_use]
    pub fn take_credit(&self) -> bool {
        let Some(credit) = self.credit.get().checked_sub(1) else { return false };
        self.credit.set(credit);
        true
    }

    /// Counts a pick that comes from the queues, and so starts a streak; true if the sources are
    /// polled before, which a `tick` demands.
    #[must_use]
    pub fn start_streak(&self, tick: bool) -> bool {
        let sources = tick || self.picks_left.get() == 0;
        let left = if sources { PICKS } else { self.picks_left.get() };
        let streak = STREAK.min(left);
        self.picks_left.set(left - streak);
        self.credit.set(streak - 1);
        sources
    }

    /// Whether this pick from the queues asks the second one first.
    #[inline]
    #[must_use]
    pub fn second_first(&self) -> bool {
        let turn = !self.second_first.get();
        self.second_first.set(turn);
        turn
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A worker as far as its picks go: what it finds in its slot and queues, and when it last did.
    #[derive(Default)]
    struct Picks {
        since_poll: u32,
        from_slot: u32,
        /// Per queue: picks from the queues since it was asked first.
        passed_over: [u32; 2],
    }

    impl Picks {
        /// One pick; `slot` says whether the next slot has a fiber, `tick` whether the flag is up.
        fn pick(&mut self, turns: &Turns, slot: bool, tick: bool) {
            self.since_poll += 1;
            if !tick && turns.take_credit() {
                if slot {
                    self.from_slot += 1;
                    return;
                }
            } else if turns.start_streak(tick) {
                self.since_poll = 0;
            }
            self.from_slot = 0;
            let second = turns.second_first();
            self.passed_over[usize::from(second)] = 0;
            self.passed_over[usize::from(!second)] += 1;
        }
    }

    proptest! {
        /// Whatever lies in the next slot at each pick, above all if there always is something.
        #[test]
        fn nobody_starves(
            picks in prop::collection::vec(
                (prop::bool::weighted(0.9), prop::bool::weighted(0.01)), 1..1000),
        ) {
            let (turns, mut seen) = (Turns::new(), Picks::default());
            for (slot, tick) in picks {
                seen.pick(&turns, slot, tick);
                prop_assert!(!tick || seen.since_poll == 0, "a tick has the sources polled");
                prop_assert!(seen.since_poll < PICKS, "a source waits");
                prop_assert!(seen.from_slot < STREAK, "a queue waits for the slot");
                prop_assert!(seen.passed_over.iter().all(|&times| times <= 1), "a queue waits");
            }
        }
    }

    #[test]
    fn two_fibers_that_wake_each_other_leave_the_sources_every_61st_pick() {
        let (turns, mut seen) = (Turns::new(), Picks::default());
        let mut polls = Vec::new();
        for pick in 0..4 * PICKS {
            seen.pick(&turns, true, false);
            if seen.since_poll == 0 {
                polls.push(pick);
            }
        }
        assert_eq!(polls, [0, PICKS, 2 * PICKS, 3 * PICKS]);
    }
}
