//! A channel, step by step.

use std::time::Duration;

use super::library::{self, Receiver, Sender};
use crate::plan::{ChannelStep, Room, Saw};

pub(crate) fn run((room, steps): &(Room, Vec<ChannelStep>)) -> Vec<Saw> {
    let (sender, receiver) = library::channel(*room);
    let mut ends = Ends { senders: vec![sender], receiver: Some(receiver), inside: 0, room: *room };
    let mut seen: Vec<_> = steps.iter().map(|&step| ends.take(step)).collect();
    ends.senders.clear();
    seen.push(ends.take(ChannelStep::ReceiveAll));
    seen.push(ends.take(ChannelStep::Receive));
    seen
}

struct Ends {
    senders: Vec<Sender>,
    receiver: Option<Receiver>,
    /// The number of messages in the channel.
    inside: usize,
    room: Room,
}

impl Ends {
    fn take(&mut self, step: ChannelStep) -> Saw {
        match step {
            ChannelStep::TrySend(message) => self.sent(|sender| {
                let sent = sender.try_send(message);
                (sent.is_ok(), Saw::TrySent(sent))
            }),
            ChannelStep::Send(_) if self.send_waits() => Saw::Nothing,
            ChannelStep::Send(message) => self.sent(|sender| {
                let sent = sender.send(message);
                (sent.is_ok(), Saw::Sent(sent))
            }),
            ChannelStep::TryReceive => self.received(|receiver| {
                let received = receiver.try_recv();
                (received.is_ok(), Saw::TryReceived(received))
            }),
            ChannelStep::Receive if self.receive_waits() => Saw::Nothing,
            ChannelStep::Receive => self.received(|receiver| {
                let received = receiver.recv();
                (received.is_ok(), Saw::Received(received))
            }),
            ChannelStep::ReceiveInTime => self.received(|receiver| {
                let received = receiver.recv_timeout(Duration::ZERO);
                (received.is_ok(), Saw::ReceivedInTime(received))
            }),
            ChannelStep::ReceiveAll => {
                self.inside = 0;
                let all = self.receiver.iter().flat_map(|receiver| receiver.try_iter());
                Saw::All(all.collect())
            }
            ChannelStep::CloneSender => self.end(|ends| {
                let clone = ends.senders.last().cloned();
                ends.senders.extend(clone);
            }),
            ChannelStep::DropSender => self.end(|ends| drop(ends.senders.pop())),
            ChannelStep::DropReceiver => self.end(|ends| drop(ends.receiver.take())),
        }
    }

    fn send_waits(&self) -> bool {
        self.receiver.is_some() && self.room.is_some_and(|room| self.inside >= room)
    }

    fn receive_waits(&self) -> bool {
        !self.senders.is_empty() && self.inside == 0
    }

    fn sent(&mut self, send: impl FnOnce(&Sender) -> (bool, Saw)) -> Saw {
        let Some(sender) = self.senders.last() else { return Saw::Nothing };
        let (sent, saw) = send(sender);
        self.inside += usize::from(sent);
        saw
    }

    fn received(&mut self, receive: impl FnOnce(&Receiver) -> (bool, Saw)) -> Saw {
        let Some(receiver) = &self.receiver else { return Saw::Nothing };
        let (received, saw) = receive(receiver);
        self.inside -= usize::from(received);
        saw
    }

    fn end(&mut self, change: impl FnOnce(&mut Self)) -> Saw {
        change(self);
        Saw::Nothing
    }
}
