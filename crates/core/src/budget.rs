//! The budget of a worker's picks: from the LIFO slot, from its two queues, and between polls of
//! its agent.

use std::cell::Cell;

/// The LIFO cap: number of picks in a row that may come from the LIFO slot.
pub const LIFO_CAP: u32 = 16;
/// The budget: number of picks between two polls of the sources.
pub const PICK_BUDGET: u32 = 61;

/// Number of children that joiners begin in their own stead between two polls of the sources.
pub const JOIN_CAP: u32 = 512;

/// The counters of one worker's picks, so that a fiber that is always runnable starves no other
/// fiber or source.
///
/// - One of [`LIFO_CAP`] picks in a row comes from the queues, if they have a fiber.
/// - Before one of [`PICK_BUDGET`] picks in a row, and before the first after a tick, the sources
///   are polled.
/// - Of two picks in a row from the queues each queue is asked first once.
/// - While fibers wait [outside](Self::outside) slot and queues, one of four picks in a row comes
///   from there.
///
/// - A joiner that [lets its child run](Self::lend) in its stead goes on, as it were: neither the
///   start of the child nor the return to the joiner counts, up to [`JOIN_CAP`] times.
///
/// Budget of a pick: a load and a store on a line that the worker owns; no clock.
///
/// ```
/// use daiko_core::budget::{LIFO_CAP, PickBudget};
///
/// let budget = PickBudget::new();
/// assert!(!budget.take_lifo_credit() && budget.start_run(false), "the sources come first of all");
/// for _ in 1..LIFO_CAP {
///     assert!(budget.take_lifo_credit());
/// }
/// assert!(!budget.take_lifo_credit() && !budget.start_run(false));
/// ```
#[derive(Debug, Default)]
pub struct PickBudget {
    /// Number of picks up to the LIFO cap that are left.
    lifo_left: Cell<u32>,
    /// Number of picks until the sources are polled, beyond `lifo_left`.
    picks_left: Cell<u32>,
    /// Number of children that joiners may still begin before the sources are polled.
    joins_left: Cell<u32>,
    /// True if the second queue was asked first at the last pick from the queues.
    second_first: Cell<bool>,
    /// True if the last run that was cut began with a pick from outside.
    outside: Cell<bool>,
}

impl PickBudget {
    /// Creates the counters of a new worker: its first pick polls the sources.
    pub const fn new() -> Self {
        PickBudget {
            lifo_left: Cell::new(0),
            picks_left: Cell::new(0),
            joins_left: Cell::new(0),
            second_first: Cell::new(false),
            outside: Cell::new(false),
        }
    }

    /// Counts a pick that may come from the LIFO slot. Returns false if none may: then the
    /// caller [starts](Self::start_run) a new run of picks.
    #[inline]
    #[must_use]
    pub fn take_lifo_credit(&self) -> bool {
        self.lifo_left.get().checked_sub(1).map(|left| self.lifo_left.set(left)).is_some()
    }

    /// Counts a pick that comes from the queues, and so starts a new run of picks. Returns true if
    /// the sources are polled before, which a `tick` demands.
    #[must_use]
    pub fn start_run(&self, tick: bool) -> bool {
        let sources = tick || self.picks_left.get() == 0;
        let left = if sources { PICK_BUDGET } else { self.picks_left.get() };
        if sources {
            self.joins_left.set(JOIN_CAP);
        }
        let run = LIFO_CAP.min(left);
        self.picks_left.set(left - run);
        self.lifo_left.set(run - 1);
        sources
    }

    /// Adds two picks from the LIFO slot to the current run: one begins the child of a joiner, the
    /// other returns to the joiner. Returns false if the child has to wait for its turn: then the
    /// next pick polls the sources, and is one from the queues.
    #[inline]
    #[must_use]
    pub fn lend(&self) -> bool {
        let left = self.joins_left.get();
        if left == 0 {
            self.lifo_left.set(0);
            self.picks_left.set(0);
            return false;
        }
        self.joins_left.set(left - 1);
        self.lifo_left.update(|left| left + 2);
        true
    }

    /// Ends the current run of picks after the next one, as a fiber has come that waits
    /// [outside](Self::outside) slot and queues.
    pub fn cut_run(&self) {
        self.cut_run_to(1);
    }

    /// Returns true if this pick, the first of a run, takes a fiber from outside slot and queues.
    /// To be asked at the start of each run while fibers wait there: cuts the run, so that the
    /// queues come at the next pick, and the outside at the second or third.
    #[must_use]
    pub fn outside(&self) -> bool {
        let turn = !self.outside.get();
        self.outside.set(turn);
        self.cut_run_to(u32::from(!turn));
        turn
    }

    fn cut_run_to(&self, most: u32) {
        let left = self.lifo_left.get();
        let kept = left.min(most);
        self.picks_left.set(self.picks_left.get() + left - kept);
        self.lifo_left.set(kept);
    }

    /// Returns true if this pick from the queues asks the second one first.
    #[inline]
    #[must_use]
    pub fn second_first(&self) -> bool {
        let turn = !self.second_first.get();
        self.second_first.set(turn);
        turn
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::iter::repeat_n;

    use proptest::prelude::*;

    use super::*;

    /// The picks of a worker, and the times since its last poll and picks from each queue.
    #[derive(Default)]
    struct Picks {
        since_poll: u32,
        /// Number of picks since the last from outside slot and queues.
        since_outside: u32,
        outside: bool,
        from_slot: u32,
        /// Number of picks from the queues since each queue was asked first.
        passed_over: [u32; 2],
    }

    impl Picks {
        /// Makes one pick; `slot` says whether the LIFO slot has a fiber, `tick` whether the flag
        /// is up, `outside` whether fibers wait outside slot and queues.
        fn pick(&mut self, budget: &PickBudget, slot: bool, tick: bool, outside: bool) {
            self.since_poll += 1;
            self.since_outside += 1;
            if outside && !self.outside {
                budget.cut_run();
            }
            self.outside = outside;
            if !tick && budget.take_lifo_credit() {
                if slot {
                    self.from_slot += 1;
                    return;
                }
            } else {
                if budget.start_run(tick) {
                    self.since_poll = 0;
                }
                if outside && budget.outside() {
                    self.since_outside = 0;
                    return;
                }
            }
            self.from_slot = 0;
            let second = budget.second_first();
            self.passed_over[usize::from(second)] = 0;
            self.passed_over[usize::from(!second)] += 1;
        }
    }

    proptest! {
        /// The LIFO slot has a fiber at most picks, or none, at random.
        #[test]
        fn no_fiber_starves(
            picks in prop::collection::vec(
                (prop::bool::weighted(0.9), prop::bool::weighted(0.01)), 1..1000),
            outside in prop::collection::vec((any::<bool>(), 1usize..100), 1..50),
        ) {
            let (budget, mut seen) = (PickBudget::new(), Picks::default());
            let outside = outside.iter().cycle().flat_map(|&(is, picks)| repeat_n(is, picks));
            let mut waited = 0;
            for ((slot, tick), outside) in picks.into_iter().zip(outside) {
                seen.pick(&budget, slot, tick, outside);
                waited = if outside { waited + 1 } else { 0 };
                prop_assert!(waited.min(seen.since_outside) < 4, "a fiber outside waits");
                prop_assert!(!tick || seen.since_poll == 0, "a tick has the sources polled");
                prop_assert!(seen.since_poll < PICK_BUDGET, "a source waits");
                prop_assert!(seen.from_slot < LIFO_CAP, "a queue waits for the slot");
                prop_assert!(seen.passed_over.iter().all(|&times| times <= 1), "a queue waits");
            }
        }
    }

    #[test]
    fn two_fibers_that_wake_each_other_leave_the_sources_every_61st_pick() {
        let (budget, mut seen) = (PickBudget::new(), Picks::default());
        let mut polls = Vec::new();
        for pick in 0..4 * PICK_BUDGET {
            seen.pick(&budget, true, false, false);
            if seen.since_poll == 0 {
                polls.push(pick);
            }
        }
        assert_eq!(polls, [0, PICK_BUDGET, 2 * PICK_BUDGET, 3 * PICK_BUDGET]);
    }

    #[test]
    fn children_of_joiners_are_not_counted_up_to_the_cap() {
        let budget = PickBudget::new();
        assert!(!budget.lend(), "the sources come first of all");
        assert!(!budget.take_lifo_credit() && budget.start_run(false));
        for _ in 0..JOIN_CAP {
            assert!(budget.lend());
            assert!(budget.take_lifo_credit() && budget.take_lifo_credit());
        }
        assert!(!budget.lend() && !budget.take_lifo_credit(), "the queues get their turn");
        assert!(budget.start_run(false), "and the sources");
        assert!(budget.lend());
    }
}
