//! Counts of wake-ups, for simulation and replay.

use daiko_core::place::Swaps;

/// Largest length of a settling that is counted exactly. Longer settlings count as this length.
pub const MOST_SETTLING: usize = 255;

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
    /// Number of settlings by length. A settling is a run of consecutive swaps of a task, ended by
    /// a wake-up that is no swap.
    settlings: [u64; MOST_SETTLING + 1],
}

/// State of a task for the tally.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    swaps: Swaps,
    /// Swaps since the last wake-up that was no swap.
    run: u8,
}

impl Default for WakeTally {
    fn default() -> Self {
        Self {
            wakes: 0,
            wake_migrations: 0,
            other_migrations: 0,
            swaps: 0,
            settlings: [0; MOST_SETTLING + 1],
        }
    }
}

impl WakeTally {
    /// Counts a wake-up of the task with this account.
    #[inline]
    pub(super) fn count(&mut self, account: &mut Account, waker: u16, previous: u16, chosen: u16) {
        self.wakes += 1;
        self.wake_migrations += u64::from(chosen != previous);
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
