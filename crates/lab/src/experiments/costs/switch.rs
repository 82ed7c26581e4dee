//! Two threads on one CPU or worker that hand the turn to each other.
//!
//! A round is two switches: the leader gives the turn away and waits until the
//! follower has given it back. Both count the turns, and find one that is out of
//! turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::laps::{Laps, SELDOM};
use super::locks::{Condvar, Mutex, Semaphore};
use super::threads::Threads;
use crate::kit::{Effort, Failure, Sample};

/// Switches in a round.
pub(super) const SWITCHES: u64 = 2;

/// What two threads hand to each other.
pub(super) trait Baton: Default + Send + Sync + 'static {
    type Hand<'a>;

    /// That of thread 0, which leads and has the first turn, or of thread 1, which follows. Until
    /// the latter is there, the leader keeps the turn.
    fn hand(&self, thread: usize) -> Self::Hand<'_>;
}

/// A thread's hold on a [`Baton`].
pub(super) trait Hand {
    /// Waits for the turn.
    fn take(&mut self);

    /// Gives the turn to the other.
    fn give(&mut self);
}

/// Switches back and forth by `B`.
pub(super) fn switch<T, B>(effort: Effort) -> Result<Sample, Failure>
where
    T: Threads,
    B: for<'a> Baton<Hand<'a>: Hand>,
{
    let game = Arc::new(Game { baton: B::default(), turns: Turns::default() });
    let mut hand = game.baton.hand(0);
    let other = Arc::clone(&game);
    let follower = T::spawn(0, 1, move || other.follow())?;
    while !game.turns.seated() {
        T::yield_now();
    }
    let timed = game.lead(&mut hand, effort);
    drop(hand);
    T::join(follower)?;
    game.turns.verdict().map(|()| timed)
}

struct Game<B> {
    baton: B,
    turns: Turns,
}

impl<B: for<'a> Baton<Hand<'a>: Hand>> Game<B> {
    fn lead(&self, hand: &mut B::Hand<'_>, effort: Effort) -> Sample {
        let mut turn = Turns::LEADERS;
        let mut laps = Laps::new(effort, SELDOM);
        while laps.another() && self.turns.begin(turn) {
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
        let mut hand = self.baton.hand(1);
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

/// How many turns there were. Atomic only because a lock that fails must not
/// make it worse: the hand-over itself orders what both write.
#[derive(Default)]
pub(super) struct Turns {
    count: AtomicU64,
    seated: AtomicBool,
    over: AtomicBool,
    wrong: AtomicBool,
}

impl Turns {
    /// The leader's first.
    pub(super) const LEADERS: u64 = 0;
    /// The follower's first.
    pub(super) const FOLLOWERS: u64 = 1;

    /// Begins `turn`, unless all is over; now it is, if this is not the next.
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

    /// The other's next turn does not begin.
    pub(super) fn end(&self) {
        // Relaxed: as in `begin`.
        self.over.store(true, Ordering::Relaxed);
    }

    /// After both have ended.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        // Relaxed: the join orders it.
        if self.wrong.load(Ordering::Relaxed) {
            return Err(Failure::Broken(
                "a thread went on although it was the other's turn".into(),
            ));
        }
        Ok(())
    }

    /// The follower has its hand.
    pub(super) fn seat(&self) {
        // Pairs with the Acquire in `seated`.
        self.seated.store(true, Ordering::Release);
    }

    pub(super) fn seated(&self) -> bool {
        // Pairs with the Release in `seat`.
        self.seated.load(Ordering::Acquire)
    }
}

/// By mutexes alone, which only their holder may unlock.
///
/// Three of them lie in a circle. Each thread holds one; who holds the next one
/// as well has the turn. It gives the turn away by unlocking the first of the two,
/// which is what the other waits for, and then waits for the third, which the
/// other holds. So every lock finds the mutex locked, and every unlock wakes.
#[derive(Default)]
pub(super) struct ByMutex<M>([M; 3]);

impl<M: Mutex + Default> Baton for ByMutex<M> {
    type Hand<'a> = MutexHand<'a, M>;

    fn hand(&self, thread: usize) -> MutexHand<'_, M> {
        let Self(circle) = self;
        let held = circle[2 * thread].lock();
        let next = (thread == 0).then(|| circle[1].lock());
        MutexHand { circle, held, next, last: 1 + thread }
    }
}

/// A thread's place in the circle of [`ByMutex`].
pub(super) struct MutexHand<'a, M: Mutex> {
    circle: &'a [M; 3],
    held: M::Guard<'a>,
    /// Only with the turn.
    next: Option<M::Guard<'a>>,
    /// The mutex that was locked last.
    last: usize,
}

impl<M: Mutex> Hand for MutexHand<'_, M> {
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

/// By a semaphore for each thread, which holds a permit if the turn is its own.
pub(super) struct BySemaphore<S>([S; 2]);

impl<S: Semaphore> Default for BySemaphore<S> {
    fn default() -> Self {
        Self([S::holding(0), S::holding(0)])
    }
}

impl<S: Semaphore> Baton for BySemaphore<S> {
    type Hand<'a> = SemaphoreHand<'a, S>;

    fn hand(&self, thread: usize) -> SemaphoreHand<'_, S> {
        SemaphoreHand { own: &self.0[thread], other: &self.0[1 - thread] }
    }
}

/// A thread's semaphore and the other's.
pub(super) struct SemaphoreHand<'a, S> {
    pub(super) own: &'a S,
    pub(super) other: &'a S,
}

impl<S: Semaphore> Hand for SemaphoreHand<'_, S> {
    #[inline]
    fn take(&mut self) {
        self.own.acquire();
    }

    #[inline]
    fn give(&mut self) {
        self.other.release();
    }
}

/// By a condition variable: the mutex is around the number of who has the turn, and
/// that of the one who has it. It is unlocked by waiting only, so that a switch is one
/// notification and one wait; on one CPU nobody is woken into a locked mutex.
#[derive(Default)]
pub(super) struct ByCondvar<M, C> {
    owner: M,
    changed: C,
}

impl<M: Mutex + Default, C: Condvar<M>> Baton for ByCondvar<M, C> {
    type Hand<'a> = CondvarHand<'a, M, C>;

    fn hand(&self, thread: usize) -> CondvarHand<'_, M, C> {
        CondvarHand { baton: self, own: thread as u64, owner: None }
    }
}

/// A thread's number, and the lock while it has the turn.
pub(super) struct CondvarHand<'a, M: Mutex, C> {
    baton: &'a ByCondvar<M, C>,
    own: u64,
    owner: Option<M::Guard<'a>>,
}

impl<M: Mutex, C: Condvar<M>> Hand for CondvarHand<'_, M, C> {
    #[inline(always)]
    fn take(&mut self) {
        let mut owner = self.owner.take().unwrap_or_else(|| self.baton.owner.lock());
        while *owner != self.own {
            owner = self.baton.changed.wait(owner);
        }
        self.owner = Some(owner);
    }

    #[inline(always)]
    fn give(&mut self) {
        **self.owner.get_or_insert_with(|| self.baton.owner.lock()) = 1 - self.own;
        self.baton.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::costs::threads::Kernel;

    const EFFORT: Effort = Effort { rounds: 1000, limit: Duration::from_secs(60) };

    /// Nobody waits for a turn of this one.
    #[derive(Default)]
    struct Broken;

    impl Baton for Broken {
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
        let failure = switch::<Kernel, Broken>(EFFORT).unwrap_err();
        assert!(matches!(failure, Failure::Broken(_)), "{failure}");
    }
}
