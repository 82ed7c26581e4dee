//! The work of a ring's thread on a datum: check, count, pass on.

use std::time::{Duration, Instant};

use super::RingOutcome;
use crate::kit::{Conductor, Failure};

/// The datum by which a conductor starts thread 0. Buffers hold 0 before it.
pub(crate) const START: u64 = 1;

/// Laps that are not measured: they bring stacks, queues and page tables into their usual state.
pub(crate) const WARM_UP: u64 = 2;

/// More laps than any run has time for.
pub(crate) const ENDLESS: u64 = u64::MAX / 2;

/// Next action after a datum has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send this to the successor and wait for the next datum.
    Pass(u64),
    /// Send this to the successor and end.
    PassLast(u64),
    /// End: all laps are done.
    End,
}

/// The role of a thread.
pub(crate) trait Part {
    /// Takes the datum that arrived.
    ///
    /// # Errors
    /// Fails if it is not the datum that this lap sent.
    fn take(&mut self, found: u64) -> Result<Step, Failure>;
}

/// Lets `part` take the datum `found`, and passes the next datum to `send`. Returns true if the
/// part continues; the end of a ring and faults are reported.
#[inline(always)]
pub(crate) fn pass_on(
    part: &mut impl Part,
    found: u64,
    conductor: &Conductor,
    send: impl FnOnce(u64),
) -> bool {
    let step = match part.take(found) {
        Ok(step) => step,
        Err(wrong) => {
            conductor.report(Err(wrong));
            return false;
        }
    };
    match step {
        Step::Pass(datum) | Step::PassLast(datum) => send(datum),
        Step::End => conductor.report(Ok(())),
    }
    matches!(step, Step::Pass(_))
}

/// The part of thread 0: sends a new value every lap and keeps the time.
#[derive(Debug)]
pub(crate) struct Leader {
    expected: u64,
    /// Laps that have begun, including those that are not measured.
    begun: u64,
    clock: LapClock,
}

impl Leader {
    /// A leader that ends after so many measured laps.
    pub(crate) fn new(laps: u64) -> Self {
        Self { expected: START, begun: 0, clock: LapClock::new(laps) }
    }

    /// A leader that ends at the first lap mark after so much measured time.
    pub(crate) fn for_time(least: Duration) -> Self {
        let clock = LapClock { least, ..LapClock::new(ENDLESS) };
        Self { expected: START, begun: 0, clock }
    }

    /// A follower in the ring of this leader, which has not begun.
    pub(crate) fn follower(&self) -> Follower {
        Follower::new(self.clock.laps)
    }

    /// Returns the measurement up to the last lap mark.
    pub(crate) fn outcome(&self) -> RingOutcome {
        self.clock.outcome
    }
}

impl Part for Leader {
    fn take(&mut self, found: u64) -> Result<Step, Failure> {
        if found != self.expected {
            return Err(Failure::WrongDatum { expected: self.expected, found });
        }
        match self.begun {
            ..WARM_UP => {}
            WARM_UP => self.clock.start(),
            _ => self.clock.lap(self.begun - WARM_UP),
        }
        if self.begun >= self.clock.laps + WARM_UP {
            return Ok(Step::End);
        }
        self.begun += 1;
        self.expected += 1;
        Ok(Step::Pass(self.expected))
    }
}

/// The part of every other thread.
#[derive(Debug)]
pub(crate) struct Follower {
    expected: u64,
    last: u64,
}

impl Follower {
    pub(crate) fn new(laps: u64) -> Self {
        Self { expected: START + 1, last: START + WARM_UP + laps }
    }
}

impl Part for Follower {
    fn take(&mut self, found: u64) -> Result<Step, Failure> {
        if found != self.expected {
            return Err(Failure::WrongDatum { expected: self.expected, found });
        }
        self.expected += 1;
        Ok(if found == self.last { Step::PassLast(found) } else { Step::Pass(found) })
    }
}

/// Records the time at lap marks, which avoids a clock reading in every lap: with two threads, that
/// would be a tenth of a polled lap. The distance between marks doubles while they are less than
/// [`LapClock::APART`] apart, so a run that is ended early loses about that much, or one lap if
/// that is longer.
#[derive(Debug)]
struct LapClock {
    started: Instant,
    outcome: RingOutcome,
    /// The last lap. Once `least` is over, the lap of the mark.
    laps: u64,
    least: Duration,
    stride: u64,
    next: u64,
}

impl LapClock {
    const APART: Duration = Duration::from_millis(1);

    fn new(laps: u64) -> Self {
        let outcome = RingOutcome::default();
        Self { started: Instant::now(), outcome, laps, least: Duration::MAX, stride: 1, next: 1 }
    }

    fn start(&mut self) {
        self.started = Instant::now();
    }

    #[inline]
    fn lap(&mut self, lap: u64) {
        if lap == self.next {
            self.mark(lap, self.started.elapsed());
        }
    }

    #[cold]
    fn mark(&mut self, lap: u64, elapsed: Duration) {
        if elapsed - self.outcome.elapsed < Self::APART {
            self.stride *= 2;
        }
        if elapsed >= self.least {
            self.laps = lap;
        }
        self.outcome = RingOutcome { elapsed, laps: lap, cpu: None };
        self.next = (lap + self.stride).min(self.laps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leader_measures_the_laps_after_those_that_warm_up() {
        let mut leader = Leader::new(5);
        for sent in START..START + WARM_UP + 5 {
            assert_eq!(leader.take(sent), Ok(Step::Pass(sent + 1)));
        }
        assert_eq!(leader.take(START + WARM_UP + 5), Ok(Step::End));
        assert_eq!(leader.outcome().laps, 5);
    }

    #[test]
    fn a_leader_for_a_time_ends_at_the_first_mark_after_it() {
        let mut leader = Leader::for_time(Duration::ZERO);
        for sent in START..=START + WARM_UP {
            assert_eq!(leader.take(sent), Ok(Step::Pass(sent + 1)), "these laps are not measured");
        }
        assert_eq!(leader.take(START + WARM_UP + 1), Ok(Step::End));
        assert_eq!(leader.outcome().laps, 1);
        let mut leader = Leader::for_time(Duration::MAX);
        let ends = (START..10_000).any(|datum| leader.take(datum) == Ok(Step::End));
        assert!(!ends);
    }

    #[test]
    fn a_leader_and_its_followers_have_as_many_laps() {
        let (mut leader, mut follower) = (Leader::new(1), Leader::new(1).follower());
        for sent in START..START + WARM_UP {
            assert_eq!(leader.take(sent), Ok(Step::Pass(sent + 1)));
            assert_eq!(follower.take(sent + 1), Ok(Step::Pass(sent + 1)));
        }
        let last = START + WARM_UP + 1;
        assert_eq!(leader.take(last - 1), Ok(Step::Pass(last)));
        assert_eq!(follower.take(last), Ok(Step::PassLast(last)));
        assert_eq!(leader.take(last), Ok(Step::End));
    }

    #[test]
    fn follower_ends_with_the_datum_that_ends_the_leader() {
        let (mut leader, mut follower) = (Leader::new(3), Follower::new(3));
        let mut datum = START;
        while let Ok(Step::Pass(sent)) = leader.take(datum) {
            match follower.take(sent).unwrap() {
                Step::Pass(passed) => datum = passed,
                Step::PassLast(passed) => {
                    assert_eq!(leader.take(passed), Ok(Step::End));
                    return;
                }
                Step::End => unreachable!("a follower always passes on"),
            }
        }
        panic!("the leader ended before the follower");
    }

    #[test]
    fn a_repeated_datum_is_wrong() {
        let mut follower = Follower::new(9);
        assert_eq!(follower.take(2), Ok(Step::Pass(2)));
        assert_eq!(follower.take(2), Err(Failure::WrongDatum { expected: 3, found: 2 }));
    }

    /// The marked laps among 1000 that take `lap_time` each.
    fn marks(lap_time: Duration) -> Vec<u64> {
        let mut clock = LapClock::new(1000);
        let mut marks = Vec::new();
        while marks.last() != Some(&1000) {
            let lap = clock.next;
            clock.mark(lap, lap_time * lap as u32);
            marks.push(lap);
        }
        marks
    }

    #[test]
    fn marks_of_short_laps_become_rare_and_end_on_the_last() {
        assert_eq!(marks(Duration::from_nanos(250)), [1, 3, 7, 15, 31, 63, 127, 255, 511, 1000]);
    }

    #[test]
    fn every_long_lap_is_marked() {
        assert_eq!(marks(Duration::from_millis(2)).len(), 1000);
    }
}
