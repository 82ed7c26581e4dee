//! What programs do, and what they see.

use proptest::collection::vec;
use proptest::prelude::*;

/// How many mutexes a program has.
pub(crate) const MUTEXES: usize = 2;
/// How many permits a semaphore begins with.
pub(crate) const PERMITS: u32 = 4;

/// What a step shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Saw {
    Nothing,
    Value { value: i64, poisoned: bool },
    Waited { value: i64, poisoned: bool, timed_out: bool },
    WouldBlock,
    TimedOut,
    Is(bool),
    Count(u32),
}

/// A step with mutexes, by index, whose guards are kept, and one condition variable. Nothing happens
/// where it would wait for itself, or lacks the guard.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LockStep {
    Lock(usize),
    TryLock(usize),
    Add(usize, i64),
    Unlock(usize),
    /// Panics with the lock held.
    Panic(usize),
    /// Takes and frees the lock in a destructor while a panic unwinds.
    LockInUnwinding(usize),
    /// Panics for a moment, while the guards lie elsewhere.
    PanicWithout,
    IsPoisoned(usize),
    ClearPoison(usize),
    /// Waits for no time.
    Wait(usize),
    /// Waits for no time while the value is less.
    WaitWhileLess(usize, i64),
    NotifyOne,
    NotifyAll,
}

/// A step with a semaphore whose permits are kept, oldest first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PermitStep {
    Try(u32),
    /// Waits for no time.
    Acquire(u32),
    /// Gives those at this place back.
    Release(usize),
    /// Gives those at this place up.
    Forget(usize),
    Add(u32),
    Available,
}

/// Who does things at the same time; none of them depends on another.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    pub(crate) workers: usize,
    pub(crate) tasks: Vec<(Place, Vec<Act>)>,
}

/// Where a task runs, if it can be chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Pinned,
    Mover,
    Thread,
}

/// What all end in the same, in whatever order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Pause,
    Add(usize, i64),
    /// Without waiting, if that can be.
    TryAdd(usize, i64),
    /// Holds the lock over a pause.
    AddSlowly(usize, i64),
    /// From the first to the last, with both held.
    Move(i64),
    Panic(usize),
    /// Has so many permits over a pause.
    Work(u32),
    /// Makes permits, and gives as many up.
    Exchange(u32),
}

/// Producers and consumers of a bounded queue.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) workers: usize,
    pub(crate) capacity: usize,
    pub(crate) producers: Vec<(Place, Vec<u32>)>,
    pub(crate) consumers: Vec<Place>,
    /// Consumers give up after a moment, and come again.
    pub(crate) impatient: bool,
    /// Who notifies has the lock.
    pub(crate) locked: bool,
}

pub(crate) fn steps<S: Strategy>(step: S) -> impl Strategy<Value = Vec<S::Value>> {
    vec(step, 0..60)
}

pub(crate) fn lock_step() -> impl Strategy<Value = LockStep> {
    use LockStep::*;
    let mutex = || 0..MUTEXES;
    prop_oneof![
        4 => mutex().prop_map(Lock),
        3 => mutex().prop_map(TryLock),
        3 => (mutex(), -9..9i64).prop_map(|(mutex, amount)| Add(mutex, amount)),
        3 => mutex().prop_map(Unlock),
        1 => mutex().prop_map(Panic),
        1 => mutex().prop_map(LockInUnwinding),
        1 => Just(PanicWithout),
        1 => mutex().prop_map(IsPoisoned),
        1 => mutex().prop_map(ClearPoison),
        2 => mutex().prop_map(Wait),
        1 => (mutex(), -9..9i64).prop_map(|(mutex, least)| WaitWhileLess(mutex, least)),
        1 => Just(NotifyOne),
        1 => Just(NotifyAll),
    ]
}

pub(crate) fn permit_step() -> impl Strategy<Value = PermitStep> {
    use PermitStep::*;
    let count = || 0..PERMITS + 2;
    prop_oneof![
        2 => count().prop_map(Try),
        2 => count().prop_map(Acquire),
        3 => any::<usize>().prop_map(Release),
        1 => any::<usize>().prop_map(Forget),
        1 => count().prop_map(Add),
        1 => Just(Available),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![3 => Just(Place::Pinned), 2 => Just(Place::Mover), 1 => Just(Place::Thread)]
}

fn act() -> impl Strategy<Value = Act> {
    use Act::*;
    let (mutex, amount) = (|| 0..MUTEXES, || -9..9i64);
    prop_oneof![
        2 => Just(Pause),
        3 => (mutex(), amount()).prop_map(|(mutex, amount)| Add(mutex, amount)),
        2 => (mutex(), amount()).prop_map(|(mutex, amount)| TryAdd(mutex, amount)),
        2 => (mutex(), amount()).prop_map(|(mutex, amount)| AddSlowly(mutex, amount)),
        2 => amount().prop_map(Move),
        1 => mutex().prop_map(Panic),
        3 => (1..=PERMITS).prop_map(Work),
        1 => (1..=PERMITS).prop_map(Exchange),
    ]
}

pub(crate) fn crowd() -> impl Strategy<Value = Crowd> {
    let tasks = vec((place(), vec(act(), 0..40)), 1..9);
    (1..4usize, tasks).prop_map(|(workers, tasks)| Crowd { workers, tasks })
}

pub(crate) fn flow() -> impl Strategy<Value = Flow> {
    let producers = vec((place(), vec(any::<u32>(), 0..40)), 1..5);
    let all = (1..4usize, 1..5usize, producers, vec(place(), 1..5), any::<[bool; 2]>());
    all.prop_map(|(workers, capacity, producers, consumers, [impatient, locked])| Flow {
        workers,
        capacity,
        producers,
        consumers,
        impatient,
        locked,
    })
}
