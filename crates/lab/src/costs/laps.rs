//! Counting and timing rounds, and two threads that take turns.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use crate::experiment::Effort;

/// Time for a number of rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) rounds: u64,
    pub(super) elapsed: Duration,
}

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

    /// After the last round.
    pub(super) fn end(self) -> Timed {
        Timed { elapsed: self.start.elapsed(), rounds: self.timed() }
    }

    fn timed(&self) -> u64 {
        self.begun.saturating_sub(1)
    }
}

/// Whose turn it is, of two threads that yield to each other on one worker or
/// CPU.
///
/// Each yields until it has the turn, and passes it on: a yield that does not
/// switch, as the kernel's may, gains nothing. A round is two turns.
#[derive(Debug, Default)]
pub(super) struct Turn(AtomicU32);

impl Turn {
    /// The one that counts the rounds. It has the first turn.
    pub(super) const LEADER: u32 = 0;
    /// The other.
    pub(super) const FOLLOWER: u32 = 1;
    /// There are no more turns.
    pub(super) const OVER: u32 = 2;

    /// Who has it.
    #[inline]
    pub(super) fn owner(&self) -> u32 {
        // Relaxed: the turn carries nothing but itself.
        self.0.load(Ordering::Relaxed)
    }

    /// By its owner.
    #[inline]
    pub(super) fn pass(&self, to: u32) {
        // Relaxed: as in `owner`.
        self.0.store(to, Ordering::Relaxed);
    }

    /// The leader's part, its yields by `yield_now`.
    pub(super) fn lead(&self, effort: Effort, yield_now: impl Fn()) -> Timed {
        let mut laps = Laps::new(effort, SELDOM);
        while laps.another() {
            self.pass(Self::FOLLOWER);
            while self.owner() != Self::LEADER {
                yield_now();
            }
        }
        let timed = laps.end();
        self.pass(Self::OVER);
        timed
    }

    /// The follower's part, its yields by `yield_now`.
    pub(super) fn follow(&self, yield_now: impl Fn()) {
        loop {
            match self.owner() {
                Self::OVER => return,
                Self::FOLLOWER => self.pass(Self::LEADER),
                _ => {}
            }
            yield_now();
        }
    }
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
        let timed = laps.end().rounds;
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
    fn two_threads_take_turns_until_the_leader_has_done_its_rounds() {
        let turn = Turn::default();
        let effort = Effort { rounds: 20, limit: Duration::from_secs(60) };
        let timed = std::thread::scope(|scope| {
            scope.spawn(|| turn.follow(std::thread::yield_now));
            turn.lead(effort, std::thread::yield_now)
        });
        assert_eq!(timed.rounds, 20);
        assert_eq!(turn.owner(), Turn::OVER);
    }
}
