//! Counting and timing rounds.

use std::time::{Duration, Instant};

use crate::kit::{Effort, Sample};

/// Rounds between clock readings for short rounds; a reading costs tens of nanoseconds.
pub(super) const SELDOM: u64 = 256;
/// Rounds between clock readings for rounds that take milliseconds.
pub(super) const ALWAYS: u64 = 1;

/// Rounds in progress. The first round is not timed: it brings memory and code into the caches and
/// waits until all participants have started. At least one round is timed, then more until all are
/// done or the limit has passed.
pub(super) struct Laps {
    effort: Effort,
    /// Rounds between two clock readings.
    look: u64,
    /// Rounds begun, including the first.
    begun: u64,
    start: Instant,
}

impl Laps {
    pub(super) fn new(effort: Effort, look: u64) -> Self {
        Self { effort, look, begun: 0, start: Instant::now() }
    }

    /// Ends the current round. Returns whether another round follows.
    #[inline]
    pub(super) fn next_round(&mut self) -> bool {
        let timed = self.timed();
        if timed == 0 {
            self.start = Instant::now();
        } else if timed >= self.effort.rounds
            || timed.is_multiple_of(self.look) && self.start.elapsed() >= self.effort.limit
        {
            return false;
        }
        self.begun += 1;
        true
    }

    /// Ends the last round. Each round performed the measured operation `times` times.
    pub(super) fn end(self, times: u64) -> Sample {
        let elapsed = self.start.elapsed();
        Sample::timed(self.timed(), self.timed() * times, elapsed)
    }

    fn timed(&self) -> u64 {
        self.begun.saturating_sub(1)
    }
}

/// [`Laps`] of which only a part is timed.
///
/// Each timed part contains about one clock reading, so it should be long.
pub(super) struct Parts {
    laps: Laps,
    elapsed: Duration,
}

impl Parts {
    pub(super) fn new(effort: Effort) -> Self {
        Self { laps: Laps::new(effort, ALWAYS), elapsed: Duration::ZERO }
    }

    /// Like [`Laps::next_round`].
    pub(super) fn next_round(&mut self) -> bool {
        self.laps.next_round()
    }

    /// Adds the duration of a timed part of this round.
    pub(super) fn add(&mut self, part: Duration) {
        if self.laps.timed() > 0 {
            self.elapsed += part;
        }
    }

    /// Like [`Laps::end`], for the timed parts only.
    pub(super) fn end(self, times: u64) -> Sample {
        let rounds = self.laps.timed();
        Sample::timed(rounds, rounds * times, self.elapsed)
    }
}

/// Number of operations measured in a sample.
#[cfg(test)]
pub(super) fn count(sample: &Sample) -> u64 {
    (sample.elapsed.as_nanos() as f64 / sample.readings[0].value).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laps(rounds: u64, limit: Duration, look: u64) -> u64 {
        let mut laps = Laps::new(Effort { rounds, limit }, look);
        let mut begun = 0;
        while laps.next_round() {
            begun += 1;
        }
        let timed = laps.end(1).rounds;
        assert_eq!(begun, timed + 1, "one round is not timed");
        timed
    }

    #[test]
    fn laps_end_at_the_rounds_asked_for() {
        for rounds in [1, 2, SELDOM, SELDOM + 1] {
            assert_eq!(laps(rounds, Duration::from_secs(60), SELDOM), rounds);
        }
    }

    #[test]
    fn laps_end_at_the_first_look_after_the_limit() {
        assert_eq!(laps(u64::MAX, Duration::ZERO, SELDOM), SELDOM);
        assert_eq!(laps(u64::MAX, Duration::ZERO, ALWAYS), 1);
    }

    #[test]
    fn a_value_is_the_time_of_all_that_happened_in_all_rounds() {
        let mut parts = Parts::new(Effort { rounds: 5, limit: Duration::from_secs(60) });
        while parts.next_round() {
            parts.add(Duration::from_nanos(60));
            parts.add(Duration::from_nanos(20));
        }
        let timed = parts.end(4);
        assert_eq!((timed.rounds, count(&timed)), (5, 20));
        assert_eq!(timed.elapsed, Duration::from_nanos(400), "the first round is not timed");
        assert_eq!(timed.readings[0].value, 20.0);
    }
}
