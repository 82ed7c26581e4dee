//! Two tasks that hand the turn to each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{Mutex, MutexGuard, Notify, Semaphore};
use tokio::task;

use super::runtime::broken;
use crate::experiments::costs::laps::{Laps, SELDOM};
use crate::experiments::costs::switch::{SWITCHES, SemaphoreHand, TurnToken, Turns};
use crate::kit::{Effort, Failure, Sample};

/// The asynchronous counterpart of the hand of a thread.
pub(super) trait Hand: Send {
    fn take(&mut self) -> impl Future<Output = ()> + Send;

    fn give(&mut self);
}

pub(super) async fn switch<B>(effort: Effort) -> Result<Sample, Failure>
where
    B: for<'a> TurnToken<Hand<'a>: Hand>,
{
    let game = Arc::new((B::default(), Turns::default()));
    let (token, turns) = &*game;
    let mut hand = token.hand(0);
    let follower = task::spawn(follow(Arc::clone(&game)));
    while !turns.seated() {
        task::yield_now().await;
    }
    let timed = lead(turns, &mut hand, effort).await;
    drop(hand);
    follower.await.map_err(broken)?;
    turns.outcome().map(|()| timed)
}

async fn lead(turns: &Turns, hand: &mut impl Hand, effort: Effort) -> Sample {
    let mut turn = Turns::LEADERS;
    let mut laps = Laps::new(effort, SELDOM);
    while laps.next_round() && turns.begin(turn) {
        hand.give();
        hand.take().await;
        turn += SWITCHES;
    }
    let timed = laps.end(SWITCHES);
    turns.end();
    hand.give();
    timed
}

async fn follow<B: for<'a> TurnToken<Hand<'a>: Hand>>(game: Arc<(B, Turns)>) {
    let (token, turns) = &*game;
    let mut hand = token.hand(1);
    turns.seat();
    hand.take().await;
    let mut turn = Turns::FOLLOWERS;
    while turns.begin(turn) {
        hand.give();
        hand.take().await;
        turn += SWITCHES;
    }
    hand.give();
}

/// Three mutexes in a circle, as for threads.
#[derive(Default)]
pub(super) struct ByMutex([Mutex<()>; 3]);

impl ByMutex {
    fn lock(&self, index: usize) -> MutexGuard<'_, ()> {
        self.0[index].try_lock().expect("the other begins with other mutexes")
    }
}

impl TurnToken for ByMutex {
    type Hand<'a> = MutexHand<'a>;

    fn hand(&self, thread: usize) -> MutexHand<'_> {
        let (held, next) = (self.lock(2 * thread), (thread == 0).then(|| self.lock(1)));
        MutexHand { circle: &self.0, held, next, last: 1 + thread }
    }
}

/// A task's position in the circle.
pub(super) struct MutexHand<'a> {
    circle: &'a [Mutex<()>; 3],
    held: MutexGuard<'a, ()>,
    next: Option<MutexGuard<'a, ()>>,
    last: usize,
}

impl Hand for MutexHand<'_> {
    async fn take(&mut self) {
        self.last = (self.last + 1) % 3;
        self.next = Some(self.circle[self.last].lock().await);
    }

    fn give(&mut self) {
        if let Some(next) = self.next.take() {
            self.held = next;
        }
    }
}

/// A semaphore for each task.
pub(super) struct BySemaphore([Semaphore; 2]);

impl Default for BySemaphore {
    fn default() -> Self {
        Self([const { Semaphore::const_new(0) }; 2])
    }
}

impl TurnToken for BySemaphore {
    type Hand<'a> = SemaphoreHand<'a, Semaphore>;

    fn hand(&self, thread: usize) -> SemaphoreHand<'_, Semaphore> {
        SemaphoreHand { own: &self.0[thread], other: &self.0[1 - thread] }
    }
}

impl Hand for SemaphoreHand<'_, Semaphore> {
    async fn take(&mut self) {
        self.own.acquire().await.expect("it is never closed").forget();
    }

    fn give(&mut self) {
        self.other.add_permits(1);
    }
}

/// A `Notify` for each task, tokio's counterpart of a condition variable, and the number of the
/// task that has the turn.
#[derive(Default)]
pub(super) struct ByNotify {
    owner: AtomicU32,
    changed: [Notify; 2],
}

impl TurnToken for ByNotify {
    type Hand<'a> = NotifyHand<'a>;

    fn hand(&self, thread: usize) -> NotifyHand<'_> {
        NotifyHand { token: self, own: thread as u32 }
    }
}

/// A task's number.
pub(super) struct NotifyHand<'a> {
    token: &'a ByNotify,
    own: u32,
}

impl Hand for NotifyHand<'_> {
    async fn take(&mut self) {
        // Relaxed: both are on one thread.
        while self.token.owner.load(Ordering::Relaxed) != self.own {
            self.token.changed[self.own as usize].notified().await;
        }
    }

    fn give(&mut self) {
        let other = 1 - self.own;
        // Relaxed: see `take`.
        self.token.owner.store(other, Ordering::Relaxed);
        self.token.changed[other as usize].notify_one();
    }
}
