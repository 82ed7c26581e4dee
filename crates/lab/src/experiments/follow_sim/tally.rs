//! Counts of wake-ups, for simulation and replay.

use daiko_core::place::Swaps;

/// Largest length of a settling that is counted exactly. Longer settlings count as this length.
pub const MOST_SETTLING: usize = 255;
/// Spans of returns, in wake-ups.
pub const SPANS: [usize; 4] = [1, 2, 4, 8];
const LONGEST_SPAN: usize = SPANS[SPANS.len() - 1];
const NOWHERE: u16 = u16::MAX;

/// Counts of wake-ups and migrations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakeTally {
    /// All wake-ups.
    pub wakes: u64,
    /// Wake-ups that placed the task on another CPU than the one where it last ran.
    pub wake_migrations: u64,
    /// Moves between wake-ups, by a balancer.
    pub other_migrations: u64,
    /// Unintended migrations among `wake_migrations`, as classified by [`Swaps`].
    pub swaps: u64,
    /// Returns among `wake_migrations`, for each of [`SPANS`]: moves to a CPU on which the task ran
    /// before one of so many wake-ups back. Those of a long span contain those of a short one, and
    /// swaps are returns of any span.
    pub returns: [u64; SPANS.len()],
    /// Number of settlings by length. A settling is a run of consecutive swaps of a task, ended by
    /// a wake-up that is no swap.
    settlings: [u64; MOST_SETTLING + 1],
}

/// State of a task for the tally.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    swaps: Swaps,
    /// CPUs on which it last ran before each wake-up, the latest first.
    ran: [u16; LONGEST_SPAN],
    /// Swaps since the last wake-up that was no swap.
    run: u8,
}

impl Default for Account {
    fn default() -> Self {
        Self { swaps: Swaps::new(), ran: [NOWHERE; LONGEST_SPAN], run: 0 }
    }
}

impl Account {
    /// Number of wake-ups since the task last ran on the CPU that it moves to, if that is known.
    fn away(&self, to: u16) -> Option<usize> {
        self.ran.iter().position(|cpu| *cpu == to).map(|wakes| wakes + 1)
    }
}

impl Default for WakeTally {
    fn default() -> Self {
        Self {
            wakes: 0,
            wake_migrations: 0,
            other_migrations: 0,
            swaps: 0,
            returns: [0; SPANS.len()],
            settlings: [0; MOST_SETTLING + 1],
        }
    }
}

impl WakeTally {
    /// Counts a wake-up of the task with this account.
    #[inline]
    pub(super) fn count(&mut self, account: &mut Account, waker: u16, previous: u16, chosen: u16) {
        self.wakes += 1;
        if chosen != previous {
            self.wake_migrations += 1;
            let away = account.away(chosen).unwrap_or(usize::MAX);
            for (returns, span) in self.returns.iter_mut().zip(SPANS) {
                *returns += u64::from(away <= span);
            }
        }
        account.ran.copy_within(..LONGEST_SPAN - 1, 1);
        account.ran[0] = previous;
        if account.swaps.is_swap(waker, previous, chosen) {
            self.swaps += 1;
            account.run = account.run.saturating_add(1);
        } else if account.run > 0 {
            self.settlings[usize::from(account.run)] += 1;
            account.run = 0;
        }
    }

    /// Number of all moves.
    pub fn migrations(&self) -> u64 {
        self.wake_migrations + self.other_migrations
    }

    /// Number of events for each 1,000 wake-ups, or 0 without wake-ups.
    pub fn per_thousand(&self, events: u64) -> f64 {
        events as f64 * 1000.0 / self.wakes.max(1) as f64
    }

    /// Swaps as a part of all migrations, or 0 without migrations.
    pub fn unintended(&self) -> f64 {
        if self.swaps == 0 { 0.0 } else { self.swaps as f64 / self.migrations() as f64 }
    }

    /// Number of settlings by length in wake-ups, beginning with length 1.
    pub fn settlings(&self) -> &[u64] {
        let last = self.settlings.iter().rposition(|count| *count > 0).unwrap_or(0);
        &self.settlings[1..=last]
    }

    /// Average length of a settling in wake-ups, if there was any.
    pub fn settle_mean(&self) -> Option<f64> {
        let (mut times, mut wakes) = (0, 0);
        for (length, count) in (1..).zip(self.settlings()) {
            times += count;
            wakes += length * count;
        }
        (times > 0).then(|| wakes as f64 / times as f64)
    }

    /// Length of the longest settling in wake-ups, or 0 without any.
    pub fn settle_max(&self) -> usize {
        self.settlings().len()
    }
}

/// Name of the figure of returns within a span of wake-ups.
pub(super) fn back(span: usize) -> String {
    format!("back-{span}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's figure 2 under the policy of kernels: CPU 0 is busy once, so the task moves, and
    /// changes CPU at each wake-up while the interrupt is one step behind it.
    #[test]
    fn a_settling_is_a_run_of_swaps() {
        let (mut tally, mut account) = (WakeTally::default(), Account::default());
        for (waker, previous, chosen) in
            [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 1), (0, 1, 0), (0, 0, 0), (0, 0, 1), (1, 1, 1)]
        {
            tally.count(&mut account, waker, previous, chosen);
        }
        assert_eq!((tally.wakes, tally.migrations(), tally.swaps), (8, 5, 3));
        assert_eq!(tally.settlings(), [0, 0, 1]);
        assert_eq!((tally.settle_mean(), tally.settle_max()), (Some(3.0), 3));
        assert_eq!(tally.unintended(), 0.6);
        // The last move is a return after two wake-ups.
        assert_eq!(tally.returns, [3, 4, 4, 4]);
        assert_eq!(tally.per_thousand(tally.swaps), 375.0);
    }

    #[test]
    fn a_return_counts_for_each_span_that_contains_it() {
        for away in 1..=LONGEST_SPAN + 1 {
            let (mut tally, mut account) = (WakeTally::default(), Account::default());
            // Away from CPU 0 for so many wake-ups, on CPUs that differ.
            let places: Vec<u16> = (0..=away as u16).chain([0]).collect();
            for place in places.windows(2) {
                tally.count(&mut account, 99, place[0], place[1]);
            }
            assert_eq!(tally.wake_migrations, away as u64 + 1);
            assert_eq!(tally.returns, SPANS.map(|span| u64::from(away <= span)), "{away}");
        }
    }

    /// A balancer took it from CPU 0 to CPU 1 between the wake-ups.
    #[test]
    fn a_wake_up_that_undoes_a_move_between_wake_ups_is_a_return() {
        let (mut tally, mut account) = (WakeTally::default(), Account::default());
        for (previous, chosen) in [(0, 0), (1, 0)] {
            tally.count(&mut account, 9, previous, chosen);
        }
        assert_eq!((tally.wake_migrations, tally.returns), (1, [1; SPANS.len()]));
        assert_eq!(tally.swaps, 0);
    }

    #[test]
    fn nothing_has_settled_without_swaps() {
        let tally = WakeTally::default();
        assert_eq!(
            (tally.settlings(), tally.settle_mean(), tally.settle_max()),
            (&[][..], None, 0)
        );
        assert_eq!(tally.unintended(), 0.0);
    }

    #[test]
    fn a_settling_longer_than_is_told_apart_is_counted_as_the_longest() {
        let (mut tally, mut account) = (WakeTally::default(), Account::default());
        tally.count(&mut account, 0, 0, 1);
        for wake in 0..600 {
            let (from, to) = if wake % 2 == 0 { (1, 0) } else { (0, 1) };
            tally.count(&mut account, to, from, to);
        }
        tally.count(&mut account, 1, 1, 1);
        assert_eq!((tally.swaps, tally.settle_max()), (600, MOST_SETTLING));
    }
}
