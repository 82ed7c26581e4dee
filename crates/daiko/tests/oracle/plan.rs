//! The steps of programs, and their results.

use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

use proptest::collection::vec;
use proptest::prelude::*;

/// The number of mutexes of a program.
pub(crate) const MUTEXES: usize = 2;
/// The number of permits that a semaphore begins with.
pub(crate) const PERMITS: u32 = 4;

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Saw {
    Nothing,
    Value { value: i64, poisoned: bool },
    Waited { value: i64, poisoned: bool, timed_out: bool },
    WouldBlock,
    TimedOut,
    Is(bool),
    Count(u32),
    Maybe(Option<i64>),
    TrySent(Result<(), TrySendError<i64>>),
    Sent(Result<(), SendError<i64>>),
    TryReceived(Result<i64, TryRecvError>),
    Received(Result<i64, RecvError>),
    ReceivedInTime(Result<i64, RecvTimeoutError>),
    All(Vec<i64>),
}

/// A step with mutexes, by index, with kept guards, and one condition variable. A step does nothing
/// if it would wait for itself, or lacks the guard.
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
    /// Panics for a moment, while no guard is held.
    PanicWithout,
    IsPoisoned(usize),
    ClearPoison(usize),
    /// Waits for zero time.
    Wait(usize),
    /// Waits for zero time while the value is less.
    WaitWhileLess(usize, i64),
    NotifyOne,
    NotifyAll,
}

/// A step with a readers-writer lock. Its guards are kept, those of readers oldest first. A step
/// does nothing if it would wait for itself, or lacks the guard.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RwStep {
    Read,
    TryRead,
    Write,
    TryWrite,
    Add(i64),
    /// Makes a reader of the writer.
    Downgrade,
    /// Ends the reader at this place.
    EndRead(usize),
    EndWrite,
    PanicReading(usize),
    PanicWriting,
    /// Writes in a destructor while a panic unwinds.
    WriteInUnwinding,
    IsPoisoned,
    ClearPoison,
}

/// A step with a `Once` and a `OnceLock`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OnceStep {
    /// Runs the closure, which may panic. Does nothing if a closure has panicked before.
    Call {
        panics: bool,
    },
    /// Runs the closure even if a closure has panicked before.
    Force {
        panics: bool,
    },
    /// Waits for completion, if it has come.
    Wait,
    IsCompleted,
    Get,
    Set(i64),
    GetOrInit(i64),
    PanicInInit,
    Take,
}

/// A step with a semaphore. Its permits are kept, oldest first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PermitStep {
    Try(u32),
    /// Waits for zero time.
    Acquire(u32),
    /// Gives the permits at this place back.
    Release(usize),
    /// Gives the permits at this place up.
    Forget(usize),
    Add(u32),
    Available,
}

/// A step with a channel. Its ends are kept. A step does nothing if it would wait for itself, or
/// lacks the end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChannelStep {
    TrySend(i64),
    Send(i64),
    TryReceive,
    Receive,
    /// Waits for zero time.
    ReceiveInTime,
    ReceiveAll,
    CloneSender,
    DropSender,
    DropReceiver,
}

/// The capacity of a channel: zero, some or unbounded.
pub(crate) type Room = Option<usize>;

/// Tasks that run at the same time; none of them depends on another.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    pub(crate) workers: usize,
    pub(crate) tasks: Vec<(Place, Vec<Act>)>,
}

/// The place where a task runs, if it can be chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Pinned,
    Migratable,
    Thread,
}

/// An act of a task. The end is the same in any order of the acts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Pause,
    Add(usize, i64),
    /// Adds without waiting, if it can.
    TryAdd(usize, i64),
    /// Holds the lock over a pause.
    AddSlowly(usize, i64),
    /// Moves from the first to the last, with both locks held.
    Move(i64),
    Panic(usize),
    /// Holds so many permits over a pause.
    Work(u32),
    /// Adds permits, and gives as many up.
    Exchange(u32),
    /// Reads over a pause.
    Read,
    Write(i64),
    /// Writes, and continues to read over a pause.
    Downgrade(i64),
    /// Runs the closure of the `Once`, over a pause, or waits for its end.
    Once,
}

/// The state that a crowd leaves behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CrowdEnd {
    pub(crate) values: [i64; MUTEXES],
    pub(crate) poisoned: [bool; MUTEXES],
    pub(crate) permits: u32,
    pub(crate) written: i64,
    /// The number of times that the closure of the `Once` ran.
    pub(crate) done: u32,
}

/// Parties that meet, again and again.
#[derive(Clone, Debug)]
pub(crate) struct Meeting {
    pub(crate) workers: usize,
    pub(crate) parties: Vec<Place>,
    pub(crate) rounds: usize,
}

/// Producers and consumers of a bounded queue.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) workers: usize,
    pub(crate) capacity: usize,
    pub(crate) producers: Vec<(Place, Vec<u32>)>,
    pub(crate) consumers: Vec<Place>,
    /// Consumers give up after a moment, and try again.
    pub(crate) impatient: bool,
    /// Notifies with the lock held.
    pub(crate) locked: bool,
}

/// Senders of a channel, and its only receiver.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) workers: usize,
    pub(crate) room: Room,
    pub(crate) senders: Vec<(Place, Vec<Sending>)>,
    pub(crate) receiver: Place,
    /// The receives, repeated in this order.
    pub(crate) receiving: Vec<Receiving>,
    /// The receiver leaves after so many messages.
    pub(crate) most: usize,
}

/// The way in which a message is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sending {
    Waiting,
    /// Tries several times before it waits.
    Trying,
    /// Sends after a pause.
    Late,
}

/// The way in which a message is received, if there is any.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Receiving {
    Waiting,
    ForAMoment,
    Trying,
    Late,
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

pub(crate) fn rw_step() -> impl Strategy<Value = RwStep> {
    use RwStep::*;
    prop_oneof![
        3 => Just(Read),
        2 => Just(TryRead),
        2 => Just(Write),
        2 => Just(TryWrite),
        3 => (-9..9i64).prop_map(Add),
        1 => Just(Downgrade),
        5 => any::<usize>().prop_map(EndRead),
        2 => Just(EndWrite),
        1 => any::<usize>().prop_map(PanicReading),
        1 => Just(PanicWriting),
        1 => Just(WriteInUnwinding),
        1 => Just(IsPoisoned),
        1 => Just(ClearPoison),
    ]
}

pub(crate) fn once_step() -> impl Strategy<Value = OnceStep> {
    use OnceStep::*;
    prop_oneof![
        2 => prop::bool::weighted(0.7).prop_map(|panics| Call { panics }),
        2 => prop::bool::weighted(0.7).prop_map(|panics| Force { panics }),
        1 => Just(Wait),
        1 => Just(IsCompleted),
        2 => Just(Get),
        1 => any::<i64>().prop_map(Set),
        1 => any::<i64>().prop_map(GetOrInit),
        2 => Just(PanicInInit),
        1 => Just(Take),
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

pub(crate) fn room() -> impl Strategy<Value = Room> {
    prop_oneof![1 => Just(Some(0)), 3 => (1..5usize).prop_map(Some), 1 => Just(None)]
}

pub(crate) fn channel_step() -> impl Strategy<Value = ChannelStep> {
    use ChannelStep::*;
    prop_oneof![
        6 => any::<i64>().prop_map(TrySend),
        4 => any::<i64>().prop_map(Send),
        5 => Just(TryReceive),
        3 => Just(Receive),
        3 => Just(ReceiveInTime),
        1 => Just(ReceiveAll),
        1 => Just(CloneSender),
        1 => Just(DropSender),
        1 => prop::bool::weighted(0.2).prop_map(|drops| if drops { DropReceiver } else { Receive }),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![3 => Just(Place::Pinned), 2 => Just(Place::Migratable), 1 => Just(Place::Thread)]
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
        3 => Just(Read),
        2 => amount().prop_map(Write),
        1 => amount().prop_map(Downgrade),
        1 => Just(Once),
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

pub(crate) fn meeting() -> impl Strategy<Value = Meeting> {
    let all = (1..4usize, vec(place(), 1..7), 0..30usize);
    all.prop_map(|(workers, parties, rounds)| Meeting { workers, parties, rounds })
}

pub(crate) fn stream() -> impl Strategy<Value = Stream> {
    let sending = prop_oneof![3 => Just(Sending::Waiting), 1 => Just(Sending::Trying), 1 => Just(Sending::Late)];
    let receiving = prop_oneof![
        3 => Just(Receiving::Waiting),
        2 => Just(Receiving::ForAMoment),
        1 => Just(Receiving::Trying),
        1 => Just(Receiving::Late),
    ];
    let senders = vec((place(), vec(sending, 0..40)), 1..5);
    let most = prop_oneof![2 => Just(usize::MAX), 1 => 0..80usize];
    let all = (1..4usize, room(), senders, place(), vec(receiving, 1..8), most);
    all.prop_map(|(workers, room, senders, receiver, receiving, most)| Stream {
        workers,
        room,
        senders,
        receiver,
        receiving,
        most,
    })
}
