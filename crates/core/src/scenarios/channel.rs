//! A channel with and without bounds, parties that send, receive and leave, and its end.

use shuttle::sync::Arc;

use super::*;
use crate::channel::{Buffered, Nothing, Party, Refused, RingBuffer, Side, Stored, Unbounded};
use crate::modelled::spawn;

/// Largest number of senders.
const SENDERS: usize = 3;
/// Largest number of receivers.
const RECEIVERS: usize = 2;
const LEAVERS: usize = 2;
const ALL: usize = SENDERS + RECEIVERS + LEAVERS;
/// Number of messages of each sender.
const EACH: usize = 4;

/// A message: its sender, and its number at that sender.
type Message = (usize, usize);

struct Shared<C> {
    channel: C,
    waiters: Waiters<ALL>,
    /// Number of parties that go on sending.
    sending: AtomicU32,
    /// True if no sender or receiver gives up: then nothing makes up for a lost wake.
    strict: bool,
}

impl<C: Stored<usize, Value = Message>> Shared<C> {
    fn patience(&self) -> Patience {
        if self.strict { Patience::Endless } else { Patience::any() }
    }

    /// Waits with `node` in the queue at `side`, if it has to; returns false if its patience ended.
    fn wait_at(
        &self,
        side: Side,
        actor: usize,
        node: &Node<Party<usize>>,
        was_claimed: &mut bool,
        patience: Patience,
    ) -> bool {
        let by = Waiters::<ALL>::by(actor);
        // SAFETY: the node is in no queue, and stays until it has left or is claimed.
        if !unsafe { self.channel.enqueue(side, &by, NonNull::from(node), *was_claimed) } {
            return true;
        }
        // SAFETY: alive, and queued here.
        let leave = |node| unsafe { self.channel.leave(side, &by, node) };
        let give_way = |_| self.waiters.wake(self.channel.next(side, &by));
        let ended = wait(&self.waiters, actor, node, patience, leave, give_way);
        let claimed = matches!(ended, Ended::Claimed(_));
        *was_claimed |= claimed;
        claimed
    }

    fn send(&self, actor: usize, message: Message, patience: Patience) -> bool {
        let (by, node, mut was_claimed) =
            (Waiters::<ALL>::by(actor), Node::new(Party::alone(actor)), false);
        loop {
            match self.channel.send(&by, message) {
                Ok(waiter) => {
                    self.waiters.wake(waiter);
                    return true;
                }
                Err(refused) => assert_eq!(refused, Refused::Full(message)),
            }
            if !self.wait_at(Side::Send, actor, &node, &mut was_claimed, patience) {
                return false;
            }
        }
    }

    /// Receives a message; `Ok(None)` if its patience ended.
    fn receive(&self, actor: usize, patience: Patience) -> Result<Option<Message>, Nothing> {
        let (by, node, mut was_claimed) =
            (Waiters::<ALL>::by(actor), Node::new(Party::alone(actor)), false);
        loop {
            match self.channel.receive(&by) {
                Ok((message, waiter)) => {
                    self.waiters.wake(waiter);
                    return Ok(Some(message));
                }
                Err(Nothing::Closed) => return Err(Nothing::Closed),
                Err(Nothing::Empty) => {}
            }
            if !self.wait_at(Side::Receive, actor, &node, &mut was_claimed, patience) {
                return Ok(None);
            }
        }
    }

    /// Sends all messages, and returns those that were sent. The last sender closes the channel.
    fn send_all(&self, actor: usize) -> Vec<Message> {
        let messages = (0..EACH).map(|number| (actor, number));
        let sent = messages.filter(|&message| self.send(actor, message, self.patience())).collect();
        if self.sending.fetch_sub(1, Ordering::AcqRel) == 1 {
            let by = Waiters::<ALL>::by(actor);
            self.channel.close(&by);
            std::iter::from_fn(|| self.channel.next(Side::Receive, &by))
                .for_each(|waiter| self.waiters.wake([waiter]));
        }
        sent
    }

    fn receive_all(&self, actor: usize) -> Vec<Message> {
        let received = || self.receive(actor, self.patience()).ok();
        std::iter::from_fn(received).flatten().collect()
    }

    /// Receives as a party that soon leaves, and comes again; returns the messages.
    fn pass_by(&self, actor: usize) -> Vec<Message> {
        let received = |_| {
            self.receive(actor, [Patience::Cancel, Patience::Deadline][below(2)]).ok().flatten()
        };
        (0..EACH).filter_map(received).collect()
    }
}

fn exchange<C: Stored<usize, Value = Message> + Send + Sync + 'static>(channel: C) {
    let (senders, receivers) = (1 + below(SENDERS), 1 + below(RECEIVERS));
    let shared = Arc::new(Shared {
        channel,
        waiters: Waiters::new(),
        sending: AtomicU32::new(senders as u32),
        strict: below(2) == 0,
    });
    let run = |all: std::ops::Range<usize>, body: fn(&Shared<C>, usize) -> Vec<Message>| {
        let one = |actor| spawn(&shared, move |shared| body(shared, actor));
        all.map(one).collect::<Vec<_>>()
    };
    let sending = run(0..senders, Shared::send_all);
    let mut receiving = run(SENDERS..SENDERS + receivers, Shared::receive_all);
    receiving.extend(run(SENDERS + RECEIVERS..ALL, Shared::pass_by));
    let sent: Vec<_> = sending.into_iter().flat_map(|one| one.join().unwrap()).collect();
    let received = receiving.into_iter().map(|one| one.join().unwrap());
    let mut received: Vec<_> = received.inspect(|all| assert_in_order(all)).flatten().collect();
    received.sort();
    assert_eq!(received, sent);
    for side in [Side::Receive, Side::Send] {
        assert_eq!(shared.channel.next(side, &Waiters::<ALL>::by(0)), None, "a waiter is left");
    }
}

/// Asserts that the messages of one sender come in the order in which it sent them.
fn assert_in_order(received: &[Message]) {
    for sender in 0..SENDERS {
        let numbers = received.iter().filter(|message| message.0 == sender);
        assert!(numbers.is_sorted(), "{received:?}");
    }
}

#[test]
fn messages_are_received_once_and_in_order() {
    rehearse(|| match below(3) {
        0 => exchange(Unbounded::new()),
        room => exchange(Buffered::new(RingBuffer::new(room))),
    });
}
