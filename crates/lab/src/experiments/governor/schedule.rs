//! Times at which wakes are due.

const NANOSECONDS: u64 = 1_000_000_000;
/// From this rate on, the waker spins between wakes, as a sleep takes as long as the gap.
const SPINS_FROM: u64 = 10_000;
/// Up to this rate, the waker has time to check that a wake was not lost.
const CHECKED_TO: u64 = 20;
/// Rounds per second of an idle schedule.
const IDLE_ROUNDS: u64 = 1000;
/// Length of the lead of a schedule with wakes, in milliseconds: a goal sets the spin of agents
/// every 100.
const LEAD_MS: u64 = 300;

/// A number of wakes at a fixed rate, or a period without wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    rate: u64,
    rounds: u64,
}

impl Schedule {
    /// `rounds` wakes at `rate` per second, or as many idle milliseconds at
    /// rate 0.
    pub(super) fn new(rate: u64, rounds: u64) -> Self {
        Self { rate, rounds }
    }

    /// The part before the schedule that does not count: at the same rate, and none at rate 0.
    pub(super) fn lead(self) -> Self {
        Self { rounds: self.rate * LEAD_MS / 1000, ..self }
    }

    /// Rounds of a sample: enough for dozens of wakes, and at rate 0 to measure a thousandth of a
    /// CPU.
    pub(super) fn rounds(rate: u64, quick: bool) -> u64 {
        let milliseconds = match (rate, quick) {
            (0, false) => 10_000,
            (0, true) => 2000,
            (1..100, false) => 4000,
            (1..100, true) => 1500,
            (100..SPINS_FROM, false) => 1000,
            (100..SPINS_FROM, true) => 300,
            (SPINS_FROM.., false) => 500,
            (SPINS_FROM.., true) => 200,
        };
        rounds_per_second(rate) * milliseconds / 1000
    }

    /// Whether the waker spins at `rate`.
    pub(super) fn spins(rate: u64) -> bool {
        rate >= SPINS_FROM
    }

    /// Whether the waker spins until a wake is due.
    pub(super) fn is_spun(self) -> bool {
        Self::spins(self.rate)
    }

    /// Whether each wake must be seen before the next is sent.
    pub(super) fn is_checked(self) -> bool {
        self.rate <= CHECKED_TO
    }

    /// Number of rounds.
    pub(super) fn round_count(self) -> u64 {
        self.rounds
    }

    /// Number of wakes.
    pub(super) fn wakes(self) -> usize {
        if self.rate == 0 { 0 } else { self.rounds as usize }
    }

    /// Due time of wake `index`, in nanoseconds from the start. The first is due after one gap, the
    /// last at the end of the schedule.
    pub(super) fn due_ns(self, index: usize) -> u64 {
        self.end_of_round_ns(index as u64)
    }

    /// Length of the schedule in nanoseconds.
    pub(super) fn length_ns(self) -> u64 {
        self.rounds.checked_sub(1).map_or(0, |last| self.end_of_round_ns(last))
    }

    /// Computed from the round's number rather than from the previous round, so that errors do not
    /// add up.
    fn end_of_round_ns(self, round: u64) -> u64 {
        (round + 1) * NANOSECONDS / rounds_per_second(self.rate)
    }
}

fn rounds_per_second(rate: u64) -> u64 {
    if rate == 0 { IDLE_ROUNDS } else { rate }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_are_one_gap_apart_and_do_not_drift() {
        let schedule = Schedule::new(100_000, 50_000);
        assert_eq!(schedule.due_ns(0), 10_000);
        assert_eq!(schedule.due_ns(1), 20_000);
        assert_eq!(schedule.due_ns(49_999), 500_000_000);
        // This rate does not divide a second.
        assert_eq!(Schedule::new(3, 3_000_000).due_ns(2_999_997), 999_999_333_333_333);
    }

    #[test]
    fn the_last_wake_is_due_at_the_end() {
        for rate in [10, 1000, 100_000] {
            let schedule = Schedule::new(rate, Schedule::rounds(rate, false));
            assert_eq!(schedule.due_ns(schedule.wakes() - 1), schedule.length_ns());
        }
    }

    #[test]
    fn a_lead_is_of_the_same_rate_and_as_long_at_each() {
        for rate in [10, 1000, 100_000] {
            let lead = Schedule::new(rate, 7).lead();
            assert_eq!((lead.due_ns(0), lead.length_ns()), (NANOSECONDS / rate, 300_000_000));
        }
        assert_eq!(Schedule::new(0, 10).lead().length_ns(), 0);
    }

    #[test]
    fn idle_takes_its_rounds_in_milliseconds_and_has_no_wakes() {
        let idle = Schedule::new(0, Schedule::rounds(0, false));
        assert_eq!((idle.length_ns(), idle.wakes()), (10 * NANOSECONDS, 0));
        assert_eq!(Schedule::rounds(0, true), 2000);
    }

    #[test]
    fn every_rate_has_more_than_a_dozen_wakes() {
        for rate in [10, 1000, 100_000] {
            assert!(Schedule::rounds(rate, true) >= 15);
            assert!(Schedule::rounds(rate, false) >= 40);
        }
    }
}
