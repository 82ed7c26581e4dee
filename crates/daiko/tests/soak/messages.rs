//! Channels of every kind, many to many: each message is received once, and in the order of its
//! sender, even if fibers are cancelled or run out of time meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use daiko::select;
use daiko::sync::channel::{self, Receiver, RecvError, RecvTimeoutError, Sender, TryRecvError};
use daiko::time;

use super::support::Token;
use super::{Dice, Round, came_to_its_end};

/// The number of senders, of all kinds.
const SENDERS: usize = 8;
/// The number of messages of each sender.
const EACH: usize = 40;

struct Message {
    sender: usize,
    number: usize,
    _token: Token,
}

/// The messages to send, and the number of those sent and received.
struct Traffic {
    sent: AtomicUsize,
    received: AtomicUsize,
    /// The messages that were received.
    seen: [[AtomicBool; EACH]; SENDERS],
}

type Ends<T> = [T; 2];

/// Returns a channel of any kind.
fn any(dice: &mut Dice) -> (Sender<Message>, Receiver<Message>) {
    match dice.below(4) {
        0 => channel::rendezvous(),
        1 => channel::bounded(1),
        2 => channel::bounded(1 + dice.below(20)),
        _ => channel::unbounded(),
    }
}

pub(super) fn exchange(dice: &mut Dice, round: &Arc<Round>) {
    let [(a, from_a), (b, from_b)] = [(); 2].map(|()| any(dice));
    let (senders, receivers) = ([a, b], [from_a, from_b]);
    let traffic = Arc::new(Traffic::new());
    let fibers: Vec<_> = (0..1 + dice.below(SENDERS))
        .map(|number| {
            let (traffic, senders, receivers) =
                (traffic.clone(), senders.clone(), receivers.clone());
            match dice.below(3) {
                0 => round.spawn(dice, move |dice, round| {
                    drop(receivers);
                    (0..EACH).for_each(|i| traffic.send(dice, round, &senders, number, i));
                }),
                1 => round.spawn(dice, move |dice, _| {
                    drop(senders);
                    traffic.receive_all(dice, &receivers);
                }),
                _ => round.spawn(dice, move |dice, round| {
                    let mut order = Order::default();
                    for i in 0..EACH {
                        traffic.choose(dice, round, (&senders, &receivers), &mut order, number, i);
                    }
                }),
            }
        })
        .collect();
    drop(senders);
    fibers.iter().filter(|_| dice.one_in(3)).for_each(|fiber| fiber.cancel());
    // The receivers that stay to the end receive all messages that have been sent.
    traffic.receive_all(dice, &receivers);
    fibers.into_iter().for_each(|fiber| _ = came_to_its_end(fiber));
    let counts = [&traffic.sent, &traffic.received].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counts[0], counts[1], "messages sent, and received");
}

fn some(dice: &mut Dice) -> Duration {
    Duration::from_nanos(dice.roll() % 50_000)
}

impl Traffic {
    fn new() -> Self {
        let seen = [(); SENDERS].map(|()| [(); EACH].map(|()| AtomicBool::new(false)));
        Traffic { sent: AtomicUsize::new(0), received: AtomicUsize::new(0), seen }
    }

    /// Counts a send. The sender does not suspend between the send and this call, so no cancel
    /// comes between.
    fn has_sent(&self, sent: bool) {
        self.sent.fetch_add(usize::from(sent), Ordering::Relaxed);
    }

    /// Counts a receive, under the same condition as [`has_sent`](Self::has_sent).
    fn has_received(&self, at: usize, message: &Message, order: &mut Order) {
        let Message { sender, number, .. } = *message;
        assert!(!self.seen[sender][number].swap(true, Ordering::Relaxed), "received twice");
        self.received.fetch_add(1, Ordering::Relaxed);
        order.has_received(at, message);
    }

    fn message(&self, round: &Round, sender: usize, number: usize) -> Message {
        Message { sender, number, _token: round.drops.token() }
    }

    fn send(
        &self,
        dice: &mut Dice,
        round: &Round,
        senders: &Ends<Sender<Message>>,
        sender: usize,
        number: usize,
    ) {
        let [message, other] = [(); 2].map(|()| self.message(round, sender, number));
        let ([first, second], end, time) = (senders, &senders[dice.below(2)], some(dice));
        self.has_sent(match dice.below(7) {
            0 => end.try_send(message).is_ok(),
            1 => end.send_timeout(message, time).is_ok(),
            2 => end.send_timeout(message, Instant::now() + time).is_ok(),
            3 => time::timeout(time, || end.send(message)).is_ok_and(|sent| sent.is_ok()),
            4 => select! {
                send(first, message) -> sent => sent.is_ok(),
                send(second, other) -> sent => sent.is_ok(),
                default(time) => false,
            },
            5 => select! {
                send(second, message) -> sent => sent.is_ok(),
                send(first, other) -> sent => sent.is_ok(),
            },
            _ => end.send(message).is_ok(),
        });
    }

    /// Receives until there are no senders.
    fn receive_all(&self, dice: &mut Dice, receivers: &Ends<Receiver<Message>>) {
        let (mut open, mut order) = ([true; 2], Order::default());
        while open.contains(&true) {
            let (time, both) = (some(dice), open == [true; 2]);
            let at = usize::from(!open[0] || both && dice.one_in(2));
            let end = &receivers[at];
            let mut comes = |at: usize, result: Result<Message, RecvError>| match result {
                Ok(message) => self.has_received(at, &message, &mut order),
                Err(RecvError) => open[at] = false,
            };
            match dice.below(6) {
                0 => match end.try_recv() {
                    Err(TryRecvError::Empty) => daiko::yield_now(),
                    result => comes(at, result.map_err(|_| RecvError)),
                },
                1 => unless_too_late(end.recv_timeout(time), |result| comes(at, result)),
                2 => {
                    let result = end.recv_timeout(Instant::now() + time);
                    unless_too_late(result, |result| comes(at, result));
                }
                3 => _ = time::timeout(time, || end.recv()).map(|result| comes(at, result)),
                // A fiber that waits at one channel alone might wait for a sender that waits at the
                // other.
                _ if both => select! {
                    recv(receivers[0]) -> result => comes(0, result),
                    recv(receivers[1]) -> result => comes(1, result),
                },
                _ => comes(at, end.recv()),
            }
        }
    }

    /// Sends or receives, at either channel, or times out.
    fn choose(
        &self,
        dice: &mut Dice,
        round: &Round,
        (senders, receivers): (&Ends<Sender<Message>>, &Ends<Receiver<Message>>),
        order: &mut Order,
        sender: usize,
        number: usize,
    ) {
        let [message, other] = [(); 2].map(|()| self.message(round, sender, number));
        let mut comes = |at, result: Result<Message, RecvError>| {
            if let Ok(message) = result {
                self.has_received(at, &message, order);
            }
        };
        select! {
            send(senders[0], message) -> sent => self.has_sent(sent.is_ok()),
            recv(receivers[0]) -> result => comes(0, result),
            send(senders[1], other) -> sent => self.has_sent(sent.is_ok()),
            recv(receivers[1]) -> result => comes(1, result),
            default(some(dice)) => {}
        }
    }
}

/// Passes on a received message, or the end of the channel.
fn unless_too_late(
    result: Result<Message, RecvTimeoutError>,
    comes: impl FnOnce(Result<Message, RecvError>),
) {
    if !matches!(result, Err(RecvTimeoutError::Timeout)) {
        comes(result.map_err(|_| RecvError));
    }
}

/// The number of the last message that one receiver has received of each sender, by channel.
#[derive(Default)]
struct Order([[Option<usize>; SENDERS]; 2]);

impl Order {
    fn has_received(&mut self, at: usize, message: &Message) {
        let last = self.0[at][message.sender].replace(message.number);
        assert!(last < Some(message.number), "{} after {last:?}", message.number);
    }
}
