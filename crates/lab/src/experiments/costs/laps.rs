//! Counting and timing rounds.

use std::time::{Duration, Instant};

use crate::kit::{Effort, Sample};

/// How often short rounds look at the clock, which costs tens of nanoseconds.
pub(super) const SELDOM: u64 = 256;
/// How often rounds of milliseconds look at the clock.
pub(super) const ALWAYS: u64 = 1;

/// Rounds on the way. The first is not timed: it brings memory and code in, and
/// waits for whoever takes part to start. At least one is timed, then more until
/// all are done or the limit has passed.
pub(super) struct Laps {
    effort: Effort,
    /// So many rounds lie between looks at the clock.
    look: u64,
    /// The first included.
    begun: u64,
    start: Instant,
}

impl Laps {
    pub(super) fn new(effort: Effort, look: u64) -> Self {
        Self { effort, look, begun: 0, start: Instant::now() }
    }

    /// Whether there is another round; the one before is over.
    #[inline]
    pub(super) fn another(&mut self) -> bool {
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

    /// After the last round, in each of which the thing happened `times` times.
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
/// Each part contains about one reading of the clock, so it is to be long.
pub(super) struct Parts {
    laps: Laps,
    elapsed: Duration,
}

impl Parts {
    pub(super) fn new(effort: Effort) -> Self {
        Self { laps: Laps::new(effort, ALWAYS), elapsed: Duration::ZERO }
    }

    /// As [`Laps::another`].
    pub(super) fn another(&mut self) -> bool {
        self.laps.another()
    }

    /// A timed part of this round took so long.
    pub(super) fn add(&mut self, part: Duration) {
        if self.laps.timed() > 0 {
            self.elapsed += part;
        }
    }

    /// As [`Laps::end`].
    pub(super) fn end(self, times: u64) -> Sample {
        let rounds = self.laps.timed();
        Sample::timed(rounds, rounds * times, self.elapsed)
    }
}

/// How often the thing that is measured happened in a sample.
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
        while laps.another() {
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
        while parts.another() {
            parts.add(Duration::from_nanos(60));
            parts.add(Duration::from_nanos(20));
        }
        let timed = parts.end(4);
        assert_eq!((timed.rounds, count(&timed)), (5, 20));
        assert_eq!(timed.elapsed, Duration::from_nanos(400), "the first round is not timed");
        assert_eq!(timed.readings[0].value, 20.0);
    }
}
