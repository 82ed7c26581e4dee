//! A lane with a sender or receiver that dies, and its successor.

use loom::sync::atomic::AtomicU32 as Note;

use super::*;
use crate::atomic::AtomicU64;
use crate::modelled::dies_at_each_step;

/// Indices of the attachments; successors come last.
const SENDER: usize = 0;
const RECEIVER: usize = 1;

struct Shared {
    attached: Attached<3>,
    lane: Lane,
    words: [AtomicU64; 2],
    /// Number of messages that the victim has sent, or the sum of those that it has received; no
    /// step of its own.
    noted: Note,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            attached: Attached::new(),
            lane: Lane::new(),
            words: array::from_fn(|_| AtomicU64::new(0)),
            noted: Note::new(0),
        })
    }

    fn slots(&self) -> Slots {
        Slots::new(self.words.len())
    }

    /// Sends, without a wait. Each side may read or write a slot only in its turn, but a peer might
    /// do so at any time, so that these accesses are atomic and unordered.
    fn try_send(&self, sender: &mut LaneSender, message: u64) -> Result<(), NotSent> {
        let write = |slot: usize| self.words[slot].store(message, Ordering::Relaxed);
        sender.send(&self.lane, self.slots(), write)
    }

    fn sit(&self, actor: usize, seat: &Seat) {
        let taken = seat.take(Attached::<3>::holder(actor), |holder| self.attached.is_dead(holder));
        assert!(matches!(taken, Take::Taken { .. }));
    }

    fn sender(&self, actor: usize) -> LaneSender {
        self.sit(actor, self.lane.sender());
        LaneSender::of(&self.lane, self.slots()).unwrap()
    }

    fn receiver(&self, actor: usize) -> LaneReceiver {
        self.sit(actor, self.lane.receiver());
        LaneReceiver::of(&self.lane, self.slots()).unwrap()
    }

    fn send(&self, actor: usize, sender: &mut LaneSender, message: u64) {
        loop {
            match self.try_send(sender, message) {
                Ok(()) => return self.attached.ring_fenced(actor),
                Err(NotSent::Full(seen)) => {
                    self.attached.sleep_fenced(actor, || !self.lane.is_full(seen))
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    fn try_receive(&self, receiver: &mut LaneReceiver) -> Result<u64, NotReceived> {
        let read = |slot: usize| self.words[slot].load(Ordering::Relaxed);
        receiver.receive(&self.lane, self.slots(), read)
    }

    /// Receives, or waits; returns `None` if the sender has closed the lane, or is dead and has
    /// left no message.
    fn receive(&self, actor: usize, receiver: &mut LaneReceiver) -> Option<u64> {
        let sender = Attached::<3>::holder(SENDER);
        loop {
            let gone = self.attached.is_dead(sender);
            match self.try_receive(receiver) {
                Ok(message) => {
                    self.attached.ring_fenced(actor);
                    return Some(message);
                }
                Err(NotReceived::Closed) => return None,
                Err(NotReceived::Empty(_)) if gone => return None,
                Err(NotReceived::Empty(seen)) => self.attached.sleep_fenced(actor, || {
                    !self.lane.is_empty(seen) || self.attached.is_dead(sender)
                }),
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

#[test]
fn messages_of_a_dead_sender_arrive_before_those_of_its_successor() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        let victim = spawn(&shared, {
            let death = death.clone();
            move |shared| {
                shared.attached.live(SENDER, &death, || {
                    let mut sender = shared.sender(SENDER);
                    for message in 1..=3 {
                        shared.send(SENDER, &mut sender, message);
                        shared.noted.store(message as u32, Ordering::Relaxed);
                    }
                    sender.close(&shared.lane);
                    shared.attached.ring_fenced(SENDER);
                })
            }
        });
        let mut receiver = shared.receiver(RECEIVER);
        let mut received = 0;
        while let Some(message) = shared.receive(RECEIVER, &mut receiver) {
            received += 1;
            assert_eq!(message, received);
        }
        let lived = victim.join().unwrap().is_some();
        let sent = u64::from(shared.noted.load(Ordering::Relaxed));
        // All messages that the victim knows it has sent, and perhaps the message that it was about
        // to ring for.
        assert!(received == sent || !lived && received == sent + 1);
        if !lived {
            let mut successor = shared.sender(2);
            if shared.try_send(&mut successor, 9).is_ok() {
                assert_eq!(shared.try_receive(&mut receiver), Ok(9));
            }
        }
    });
}

#[test]
fn the_successor_of_a_dead_receiver_receives_the_rest_and_nothing_twice() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        let victim = spawn(&shared, {
            let death = death.clone();
            move |shared| {
                shared.attached.live(RECEIVER, &death, || {
                    let mut receiver = shared.receiver(RECEIVER);
                    while let Ok(message) = shared.try_receive(&mut receiver) {
                        let sum = shared.noted.load(Ordering::Relaxed) + message as u32;
                        shared.noted.store(sum, Ordering::Relaxed);
                        shared.attached.ring_fenced(RECEIVER);
                    }
                    assert!(shared.lane.receiver().leave(Attached::<3>::holder(RECEIVER)));
                })
            }
        });
        let mut sender = shared.sender(SENDER);
        let sends = [1, 10, 100]
            .map(|message: u64| shared.try_send(&mut sender, message).map(|()| message));
        let sent: u64 = sends.into_iter().flatten().sum();
        victim.join().unwrap();
        let mut successor = shared.receiver(2);
        let left: u64 = std::iter::from_fn(|| shared.try_receive(&mut successor).ok()).sum();
        assert_eq!(u64::from(shared.noted.load(Ordering::Relaxed)) + left, sent);
    });
}

fn send_one(shared: &Shared, actor: usize) -> u64 {
    let me = Attached::<3>::holder(actor);
    let Take::Taken { .. } = shared.lane.sender().take(me, |_| false) else { return 0 };
    let mut sender = LaneSender::of(&shared.lane, shared.slots()).unwrap();
    let message = 1 << actor;
    shared.send(actor, &mut sender, message);
    assert!(shared.lane.sender().leave(me));
    message
}

#[test]
fn the_next_sender_in_a_seat_continues_behind_the_sent_messages() {
    loom::model(|| {
        let shared = Shared::new();
        let other = spawn(&shared, |shared| send_one(shared, 2));
        let sent = send_one(&shared, SENDER) + other.join().unwrap();
        let mut receiver = shared.receiver(RECEIVER);
        let received = std::iter::from_fn(|| shared.try_receive(&mut receiver).ok());
        assert_eq!(received.sum::<u64>(), sent);
    });
}

#[test]
fn closing_the_receiving_side_ends_a_wait_for_room() {
    loom::model(|| {
        let shared = Shared::new();
        let mut receiver = shared.receiver(RECEIVER);
        let closes = spawn(&shared, move |shared| {
            receiver.close(&shared.lane);
            shared.attached.ring_fenced(RECEIVER);
        });
        let mut sender = shared.sender(SENDER);
        loop {
            match shared.try_send(&mut sender, 1) {
                Ok(()) => {}
                Err(NotSent::Full(seen)) => {
                    shared.attached.sleep_fenced(SENDER, || !shared.lane.is_full(seen))
                }
                Err(error) => break assert_eq!(error, NotSent::Closed),
            }
        }
        closes.join().unwrap();
    });
}

impl Shared {
    fn try_receive_shared(&self) -> Result<u64, NotReceived> {
        self.lane.receive_shared(self.slots(), |slot| self.words[slot].load(Ordering::Relaxed))
    }
}

#[test]
fn of_two_receivers_each_message_goes_to_one_though_one_dies() {
    dies_at_each_step(2, |death| {
        let shared = Shared::new();
        let victim = spawn(&shared, {
            let death = death.clone();
            move |shared| {
                shared.attached.live(RECEIVER, &death, || {
                    while let Ok(message) = shared.try_receive_shared() {
                        let sum = shared.noted.load(Ordering::Relaxed) + message as u32;
                        shared.noted.store(sum, Ordering::Relaxed);
                        shared.attached.ring_fenced(RECEIVER);
                    }
                })
            }
        });
        let mut sender = shared.sender(SENDER);
        let mut sent = 0;
        let mut send = |message: u64| {
            let here = shared.try_send(&mut sender, message).map_or(0, |()| message);
            sent += here;
        };
        [1, 10].into_iter().for_each(&mut send);
        let mine = shared.try_receive_shared().unwrap_or(0);
        [100, 1000].into_iter().for_each(&mut send);
        victim.join().unwrap();
        let left: u64 = std::iter::from_fn(|| shared.try_receive_shared().ok()).sum();
        assert_eq!(u64::from(shared.noted.load(Ordering::Relaxed)) + mine + left, sent);
    });
}
