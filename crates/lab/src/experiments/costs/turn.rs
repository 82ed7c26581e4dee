//! Two threads that yield to each other on one worker or CPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::laps::{Laps, SELDOM};
use super::threads::Threads;
use crate::kit::{Effort, Failure, Sample};

/// Yields in a round.
pub(super) const YIELDS: u64 = 2;

/// Measures yields back and forth.
pub(super) fn yield_pair<T: Threads>(effort: Effort) -> Result<Sample, Failure> {
    let turn = Arc::new(Turn::default());
    let other = Arc::clone(&turn);
    let follower = T::spawn(0, 1, move || other.follow::<T>())?;
    let timed = turn.lead::<T>(effort);
    T::join(follower)?;
    Ok(timed)
}

/// The turn of two threads that yield to each other.
///
/// Each thread yields until it has the turn, and passes it on. A yield that does not switch, as a
/// yield of the kernel may, therefore gains nothing. A round is two turns.
#[derive(Debug, Default)]
pub(super) struct Turn(AtomicU32);

impl Turn {
    /// The thread that counts the rounds. It has the first turn.
    pub(super) const LEADER: u32 = 0;
    /// The other thread.
    pub(super) const FOLLOWER: u32 = 1;
    /// There are no more turns.
    pub(super) const OVER: u32 = 2;

    /// Number of the thread that has the turn.
    #[inline]
    pub(super) fn owner(&self) -> u32 {
        // Relaxed: the turn publishes no other data.
        self.0.load(Ordering::Relaxed)
    }

    /// Passes the turn. Called by its owner.
    #[inline]
    pub(super) fn pass(&self, to: u32) {
        // Relaxed: see `owner`.
        self.0.store(to, Ordering::Relaxed);
    }

    fn lead<T: Threads>(&self, effort: Effort) -> Sample {
        let mut laps = Laps::new(effort, SELDOM);
        while laps.next_round() {
            self.pass(Self::FOLLOWER);
            while self.owner() != Self::LEADER {
                T::yield_now();
            }
        }
        let timed = laps.end(YIELDS);
        self.pass(Self::OVER);
        timed
    }

    fn follow<T: Threads>(&self) {
        loop {
            match self.owner() {
                Self::OVER => return,
                Self::FOLLOWER => self.pass(Self::LEADER),
                _ => {}
            }
            T::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::laps;
    use super::*;
    use crate::experiments::costs::threads::KernelThreads;

    #[test]
    fn two_threads_take_turns_until_the_leader_has_done_its_rounds() {
        let turn = Turn::default();
        let effort = Effort { rounds: 20, limit: Duration::from_secs(60) };
        let timed = std::thread::scope(|scope| {
            scope.spawn(|| turn.follow::<KernelThreads>());
            turn.lead::<KernelThreads>(effort)
        });
        assert_eq!((timed.rounds, laps::count(&timed)), (20, 40));
        assert_eq!(turn.owner(), Turn::OVER);
    }
}
