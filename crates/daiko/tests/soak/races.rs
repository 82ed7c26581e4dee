//! A cancel races the completion of a wait: exactly one of both wins, and nothing leaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use daiko::sync::channel::{self, OneshotReceiver, OneshotSender, Receiver, RecvError, Sender};
use daiko::sync::{Mutex, MutexGuard, Semaphore};
use daiko::{Fiber, JoinError, JoinHandle, select};

use super::support::endless::LONG;
use super::support::{Drops, Token};
use super::{Dice, Round};

/// The number of races of the process, by winner: the cancel, or the completion.
static WON: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

pub(super) fn report() {
    let [cancels, completions] = WON.each_ref().map(|won| won.load(Ordering::Relaxed));
    println!(
        "soak: {} races of a cancel with a completion, of which {cancels} were won by the cancel",
        cancels + completions
    );
}

/// Returns the number of races.
pub(super) fn count() -> u64 {
    WON.iter().map(|won| won.load(Ordering::Relaxed)).sum()
}

pub(super) fn some(dice: &mut Dice, round: &Arc<Round>) {
    let all = 0..1 + dice.below(64);
    let drops = &round.drops;
    match dice.below(8) {
        0 => race(dice, round, all.map(|_| Message::new(drops, channel::rendezvous())).collect()),
        1 => race(dice, round, all.map(|_| Message::new(drops, channel::bounded(1))).collect()),
        2 => race(dice, round, all.map(|_| Message::new(drops, channel::unbounded())).collect()),
        3 => race(dice, round, all.map(|_| OneMessage::new(drops)).collect()),
        4 => {
            let mutexes: Vec<_> = all.map(|_| Arc::new(Mutex::new(0))).collect();
            race(dice, round, mutexes.iter().map(Locked::new).collect());
        }
        5 => {
            let bequests = all.map(|_| HandedOn::new(dice, round)).collect();
            race(dice, round, bequests);
        }
        6 => race(dice, round, all.map(|_| Permits(Arc::new(Semaphore::new(0)))).collect()),
        _ => {
            let ends = all.map(|_| End::new(dice, round)).collect();
            race(dice, round, ends);
        }
    }
}

/// The completion of a wait.
trait Completion {
    /// The value that the waiter waits with.
    type Waits: Send + 'static;
    /// The value that the waiter gets.
    type Gets: Send + 'static;
    /// The value that tells the winner.
    type Judge;

    fn waits(&mut self) -> Self::Waits;

    /// Waits, on the waiter's fiber. The waiter owns the value as this returns, and does not
    /// suspend afterwards.
    fn wait(waits: Self::Waits) -> Self::Gets;

    fn complete(self) -> Self::Judge;

    /// Asserts that the value exists once: with the waiter, or left behind.
    fn judge(judge: Self::Judge, got: Option<Self::Gets>);
}

/// A message that a fiber may receive, alone or by a select.
struct Message {
    token: Token,
    ends: (Sender<Token>, Receiver<Token>),
    waits: usize,
}

impl Message {
    fn new(drops: &Drops, ends: (Sender<Token>, Receiver<Token>)) -> Self {
        static TURNS: AtomicUsize = AtomicUsize::new(0);
        Message { token: drops.token(), ends, waits: TURNS.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Completion for Message {
    type Waits = (Receiver<Token>, usize);
    type Gets = Token;
    /// Whether the message was sent, and both ends.
    type Judge = (bool, Sender<Token>, Receiver<Token>);

    fn waits(&mut self) -> Self::Waits {
        (self.ends.1.clone(), self.waits)
    }

    fn wait((receiver, turn): Self::Waits) -> Token {
        receive(&receiver, turn)
    }

    fn complete(self) -> Self::Judge {
        let (sender, receiver) = self.ends;
        (sender.try_send(self.token).is_ok(), sender, receiver)
    }

    fn judge((sent, _sender, receiver): Self::Judge, got: Option<Token>) {
        let left = receiver.try_recv().is_ok();
        assert_eq!(usize::from(got.is_some()) + usize::from(left), usize::from(sent));
    }
}

/// Receives in one of several ways.
fn receive(receiver: &Receiver<Token>, turn: usize) -> Token {
    let (_sender, never) = channel::rendezvous::<()>();
    let received = match turn % 3 {
        0 => receiver.recv(),
        1 => receiver.recv_timeout(LONG).map_err(|_| RecvError),
        _ => select! {
            recv(never) -> _ => unreachable!("there is no sender"),
            recv(receiver) -> received => received,
        },
    };
    received.unwrap()
}

/// A message that a successor receives if the waiter does not: a wake that the cancel makes useless
/// is passed on.
struct HandedOn {
    message: Message,
    successor: JoinHandle<Token>,
    /// The message for the successor, if the waiter gets the first.
    other: Token,
}

impl HandedOn {
    fn new(dice: &mut Dice, round: &Arc<Round>) -> Self {
        let ends = if dice.one_in(2) { channel::bounded(1) } else { channel::unbounded() };
        let (receiver, turn) = (ends.1.clone(), dice.below(3));
        let successor = round.spawn(dice, move |dice, _| {
            // Waits before or behind the cancelled waiter.
            (0..dice.below(4)).for_each(|_| daiko::yield_now());
            receive(&receiver, turn)
        });
        HandedOn {
            message: Message::new(&round.drops, ends),
            successor,
            other: round.drops.token(),
        }
    }
}

impl Completion for HandedOn {
    type Waits = (Receiver<Token>, usize);
    type Gets = Token;
    /// The message that the successor may get, the channel, and the successor.
    type Judge = (Token, Sender<Token>, Receiver<Token>, JoinHandle<Token>);

    fn waits(&mut self) -> Self::Waits {
        self.message.waits()
    }

    fn wait(waits: Self::Waits) -> Token {
        Message::wait(waits)
    }

    fn complete(self) -> Self::Judge {
        let (sent, sender, receiver) = self.message.complete();
        assert!(sent, "there is room");
        (self.other, sender, receiver, self.successor)
    }

    /// Only the first message wakes the successor, if the waiter has not got it.
    fn judge((other, sender, receiver, successor): Self::Judge, got: Option<Token>) {
        if got.is_some() {
            assert!(sender.try_send(other).is_ok(), "there is room");
        }
        drop(successor.join().unwrap());
        assert!(receiver.is_empty());
    }
}

/// The message of a oneshot.
struct OneMessage(Token, OneshotSender<Token>, Option<OneshotReceiver<Token>>);

impl OneMessage {
    fn new(drops: &Drops) -> Self {
        let (sender, receiver) = channel::oneshot();
        OneMessage(drops.token(), sender, Some(receiver))
    }
}

impl Completion for OneMessage {
    type Waits = OneshotReceiver<Token>;
    type Gets = Token;
    /// Whether the message was sent.
    type Judge = bool;

    fn waits(&mut self) -> Self::Waits {
        self.2.take().expect("one waits")
    }

    fn wait(receiver: Self::Waits) -> Token {
        receiver.recv().unwrap()
    }

    fn complete(self) -> bool {
        self.1.send(self.0).is_ok()
    }

    fn judge(sent: bool, got: Option<Token>) {
        assert!(sent || got.is_none());
    }
}

/// A mutex that is freed.
struct Locked<'m>(&'m Arc<Mutex<u32>>, MutexGuard<'m, u32>);

impl<'m> Locked<'m> {
    fn new(mutex: &'m Arc<Mutex<u32>>) -> Self {
        Locked(mutex, mutex.lock().unwrap())
    }
}

impl<'m> Completion for Locked<'m> {
    type Waits = Arc<Mutex<u32>>;
    type Gets = ();
    type Judge = &'m Mutex<u32>;

    fn waits(&mut self) -> Self::Waits {
        self.0.clone()
    }

    fn wait(mutex: Self::Waits) {
        *mutex.lock().unwrap() += 1;
    }

    fn complete(self) -> Self::Judge {
        drop(self.1);
        self.0
    }

    fn judge(mutex: Self::Judge, got: Option<()>) {
        let count = mutex.try_lock().expect("free, and not poisoned");
        assert_eq!(*count, u32::from(got.is_some()));
    }
}

/// A permit that is added.
struct Permits(Arc<Semaphore>);

impl Completion for Permits {
    type Waits = Arc<Semaphore>;
    type Gets = ();
    type Judge = Arc<Semaphore>;

    fn waits(&mut self) -> Self::Waits {
        self.0.clone()
    }

    fn wait(semaphore: Self::Waits) {
        semaphore.acquire().forget();
    }

    fn complete(self) -> Self::Judge {
        self.0.add_permits(1);
        self.0
    }

    fn judge(semaphore: Self::Judge, got: Option<()>) {
        assert_eq!(semaphore.available_permits() + u32::from(got.is_some()), 1);
    }
}

/// The end of a fiber, and its result.
struct End(Fiber, Option<JoinHandle<Token>>);

impl End {
    fn new(dice: &mut Dice, round: &Arc<Round>) -> Self {
        let token = round.drops.token();
        let handle = round.spawn(dice, move |_, _| {
            daiko::park();
            token
        });
        End(handle.fiber().clone(), Some(handle))
    }
}

impl Completion for End {
    type Waits = JoinHandle<Token>;
    type Gets = Token;
    type Judge = ();

    fn waits(&mut self) -> Self::Waits {
        self.1.take().expect("one waits")
    }

    fn wait(handle: Self::Waits) -> Token {
        handle.join().unwrap()
    }

    fn complete(self) {
        self.0.unpark();
    }

    /// A waiter without the result has dropped it: the round counts its tokens.
    fn judge((): (), _got: Option<Token>) {}
}

/// Races each completion with the cancel of its waiter, in the same order.
fn race<C: Completion>(dice: &mut Dice, round: &Arc<Round>, mut completions: Vec<C>) {
    let waiters = completions.iter_mut().map(|completion| {
        let waits = completion.waits();
        round.spawn(dice, move |_, _| C::wait(waits))
    });
    let waiters = Arc::new(waiters.collect::<Vec<_>>());
    // Some waiters have begun to wait.
    (0..dice.below(3)).for_each(|_| daiko::yield_now());
    let cancelled = waiters.clone();
    let canceller = round.spawn(dice, move |_, _| {
        for waiter in &*cancelled {
            waiter.cancel();
        }
    });
    let judges: Vec<_> = completions
        .into_iter()
        .map(|completion| {
            if dice.one_in(16) {
                daiko::yield_now();
            }
            completion.complete()
        })
        .collect();
    canceller.join().unwrap();
    let waiters = Arc::into_inner(waiters).expect("the other has ended");
    for (waiter, judge) in waiters.into_iter().zip(judges) {
        let got = match waiter.join() {
            Ok(got) => Some(got),
            Err(JoinError::Cancelled) => None,
            Err(error) => panic!("{error}"),
        };
        WON[usize::from(got.is_some())].fetch_add(1, Ordering::Relaxed);
        C::judge(judge, got);
    }
}
