//! Two threads on one CPU or worker that hand the turn to each other.
//!
//! A round is two switches: the leader gives the turn away and waits until the follower has given
//! it back. Both count the turns, which finds a thread that runs out of turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::laps::{Laps, SELDOM};
use super::locks::{TestedCondvar, TestedMutex, TestedSemaphore};
use super::threads::Threads;
use crate::kit::{Effort, Failure, Sample};

/// Switches in a round.
pub(super) const SWITCHES: u64 = 2;

/// A lock or locks by which two threads hand the turn to each other.
pub(super) trait TurnToken: Default + Send + Sync + 'static {
    type Hand<'a>;

    /// That of thread 0, which leads and has the first turn, or of thread 1, which follows. Until
    /// the latter is there, the leader keeps the turn.
    fn hand(&self, thread: usize) -> Self::Hand<'_>;
}

/// One thread's access to a [`TurnToken`].
pub(super) trait Hand {
    /// Waits for the turn.
    fn take(&mut self);

    /// Gives the turn to the other thread.
    fn give(&mut self);
}

/// Measures switches back and forth by `B`.
pub(super) fn switch<T, B>(effort: Effort) -> Result<Sample, Failure>
where
    T: Threads,
    B: for<'a> TurnToken<Hand<'a>: Hand>,
{
    let game = Arc::new(Game { token: B::default(), turns: Turns::default() });
    let mut hand = game.token.hand(0);
    let other = Arc::clone(&game);
    let follower = T::spawn(0, 1, move || other.follow())?;
    while !game.turns.seated() {
        T::yield_now();
    }
    let timed = game.lead(&mut hand, effort);
    drop(hand);
    T::join(follower)?;
    game.turns.outcome().map(|()| timed)
}

struct Game<B> {
    token: B,
    turns: Turns,
}

impl<B: for<'a> TurnToken<Hand<'a>: Hand>> Game<B> {
    fn lead(&self, hand: &mut B::Hand<'_>, effort: Effort) -> Sample {
        let mut turn = Turns::LEADERS;
        let mut laps = Laps::new(effort, SELDOM);
        while laps.next_round() && self.turns.begin(turn) {
            hand.give();
            hand.take();
            turn += SWITCHES;
        }
        let timed = laps.end(SWITCHES);
        self.turns.end();
        hand.give();
        timed
    }

    fn follow(&self) {
        let mut hand = self.token.hand(1);
        self.turns.seat();
        hand.take();
        let mut turn = Turns::FOLLOWERS;
        while self.turns.begin(turn) {
            hand.give();
            hand.take();
            turn += SWITCHES;
        }
        hand.give();
    }
}

/// Number of turns so far. Atomic only so that a broken lock causes no data race; the hand-over
/// itself orders the accesses of both threads.
#[derive(Default)]
pub(super) struct Turns {
    count: AtomicU64,
    seated: AtomicBool,
    over: AtomicBool,
    wrong: AtomicBool,
}

impl Turns {
    /// First turn of the leader.
    pub(super) const LEADERS: u64 = 0;
    /// First turn of the follower.
    pub(super) const FOLLOWERS: u64 = 1;

    /// Begins `turn`, unless the rounds are over. Ends them if this is not the next turn. Returns
    /// whether the turn began.
    #[inline]
    pub(super) fn begin(&self, turn: u64) -> bool {
        // Relaxed, all of them: the hand-over orders them.
        if self.over.load(Ordering::Relaxed) {
            return false;
        }
        if self.count.load(Ordering::Relaxed) != turn {
            self.wrong.store(true, Ordering::Relaxed);
            self.end();
            return false;
        }
        self.count.store(turn + 1, Ordering::Relaxed);
        true
    }

    /// Ends the rounds: the other thread's next turn does not begin.
    pub(super) fn end(&self) {
        // Relaxed: see `begin`.
        self.over.store(true, Ordering::Relaxed);
    }

    /// Fails if a thread ran out of turn. Called after both have ended.
    pub(super) fn outcome(&self) -> Result<(), Failure> {
        // Relaxed: the join orders it.
        if self.wrong.load(Ordering::Relaxed) {
            return Err(Failure::Broken(
                "a thread went on although it was the other's turn".into(),
            ));
        }
        Ok(())
    }

    /// Announces that the follower has its hand.
    pub(super) fn seat(&self) {
        // Pairs with the Acquire in `seated`.
        self.seated.store(true, Ordering::Release);
    }

    pub(super) fn seated(&self) -> bool {
        // Pairs with the Release in `seat`.
        self.seated.load(Ordering::Acquire)
    }
}

/// A token of mutexes alone, each unlocked only by its holder.
///
/// Three mutexes form a circle. Each thread holds one, and the thread that also holds the next one
/// has the turn. It gives the turn away by unlocking the first of its two mutexes, which the other
/// thread waits for, and then waits for the third mutex, which the other thread holds. Hence every
/// lock finds the mutex locked, and every unlock wakes a thread.
#[derive(Default)]
pub(super) struct ByMutex<M>([M; 3]);

impl<M: TestedMutex + Default> TurnToken for ByMutex<M> {
    type Hand<'a> = MutexHand<'a, M>;

    fn hand(&self, thread: usize) -> MutexHand<'_, M> {
        let Self(circle) = self;
        let held = circle[2 * thread].lock();
        let next = (thread == 0).then(|| circle[1].lock());
        MutexHand { circle, held, next, last: 1 + thread }
    }
}

/// A thread's position in the circle of [`ByMutex`].
pub(super) struct MutexHand<'a, M: TestedMutex> {
    circle: &'a [M; 3],
    held: M::Guard<'a>,
    /// Held only during this thread's turn.
    next: Option<M::Guard<'a>>,
    /// The mutex that was locked last.
    last: usize,
}

impl<M: TestedMutex> Hand for MutexHand<'_, M> {
    #[inline]
    fn take(&mut self) {
        self.last = (self.last + 1) % 3;
        self.next = Some(self.circle[self.last].lock());
    }

    #[inline]
    fn give(&mut self) {
        if let Some(next) = self.next.take() {
            self.held = next;
        }
    }
}

/// A token of one semaphore per thread. A thread's semaphore holds a permit during its turn.
pub(super) struct BySemaphore<S>([S; 2]);

impl<S: TestedSemaphore> Default for BySemaphore<S> {
    fn default() -> Self {
        Self([S::holding(0), S::holding(0)])
    }
}

impl<S: TestedSemaphore> TurnToken for BySemaphore<S> {
    type Hand<'a> = SemaphoreHand<'a, S>;

    fn hand(&self, thread: usize) -> SemaphoreHand<'_, S> {
        SemaphoreHand { own: &self.0[thread], other: &self.0[1 - thread] }
    }
}

/// A thread's own semaphore and that of the other thread.
pub(super) struct SemaphoreHand<'a, S> {
    pub(super) own: &'a S,
    pub(super) other: &'a S,
}

impl<S: TestedSemaphore> Hand for SemaphoreHand<'_, S> {
    #[inline]
    fn take(&mut self) {
        self.own.acquire();
    }

    #[inline]
    fn give(&mut self) {
        self.other.release();
    }
}

/// A token by a condition variable. The mutex protects the number of the thread that has the turn,
/// and that thread holds the mutex. Only waiting unlocks it, so a switch is one notification and
/// one wait; on one CPU, no thread is woken into a locked mutex.
#[derive(Default)]
pub(super) struct ByCondvar<M, C> {
    owner: M,
    changed: C,
}

impl<M: TestedMutex + Default, C: TestedCondvar<M>> TurnToken for ByCondvar<M, C> {
    type Hand<'a> = CondvarHand<'a, M, C>;

    fn hand(&self, thread: usize) -> CondvarHand<'_, M, C> {
        CondvarHand { token: self, own: thread as u64, owner: None }
    }
}

/// A thread's number, and the lock during its turn.
pub(super) struct CondvarHand<'a, M: TestedMutex, C> {
    token: &'a ByCondvar<M, C>,
    own: u64,
    owner: Option<M::Guard<'a>>,
}

impl<M: TestedMutex, C: TestedCondvar<M>> Hand for CondvarHand<'_, M, C> {
    #[inline(always)]
    fn take(&mut self) {
        let mut owner = self.owner.take().unwrap_or_else(|| self.token.owner.lock());
        while *owner != self.own {
            owner = self.token.changed.wait(owner);
        }
        self.owner = Some(owner);
    }

    #[inline(always)]
    fn give(&mut self) {
        **self.owner.get_or_insert_with(|| self.token.owner.lock()) = 1 - self.own;
        self.token.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::costs::threads::KernelThreads;

    const EFFORT: Effort = Effort { rounds: 1000, limit: Duration::from_secs(60) };

    /// A token that never waits for the turn.
    #[derive(Default)]
    struct Broken;

    impl TurnToken for Broken {
        type Hand<'a> = Broken;

        fn hand(&self, _: usize) -> Broken {
            Broken
        }
    }

    impl Hand for Broken {
        fn take(&mut self) {}

        fn give(&mut self) {}
    }

    #[test]
    fn a_turn_out_of_turn_is_found_and_ends_both() {
        let failure = switch::<KernelThreads, Broken>(EFFORT).unwrap_err();
        assert!(matches!(failure, Failure::Broken(_)), "{failure}");
    }
}
