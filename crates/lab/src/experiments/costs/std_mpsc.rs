//! `std::sync::mpsc`, on the kernel's threads.

use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

use super::{
    channel::{CAPACITY, Channel, channel},
    item::{CHANNEL, CostMethod, Item},
    threads::Kernel,
};

pub(super) const METHOD: CostMethod = CostMethod {
    name: "std-mpsc",
    items: &[
        Item::of(CHANNEL, channel::<Kernel, Bounded<0>>).with("kind", "rendezvous"),
        Item::of(CHANNEL, channel::<Kernel, Bounded<CAPACITY>>).with("kind", "bounded"),
        Item::of(CHANNEL, channel::<Kernel, Unbounded>).with("kind", "unbounded"),
    ],
};

/// Holds so many messages; with 0, who sends waits for who receives.
struct Bounded<const MESSAGES: usize>;

impl<const MESSAGES: usize> Channel for Bounded<MESSAGES> {
    type Sender = SyncSender<u64>;
    type Receiver = Receiver<u64>;

    fn open() -> (SyncSender<u64>, Receiver<u64>) {
        mpsc::sync_channel(MESSAGES)
    }

    #[inline]
    fn send(sender: &mut SyncSender<u64>, message: u64) -> bool {
        sender.send(message).is_ok()
    }

    #[inline]
    fn receive(receiver: &mut Receiver<u64>) -> Option<u64> {
        receiver.recv().ok()
    }
}

/// Holds any number of messages.
struct Unbounded;

impl Channel for Unbounded {
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;

    fn open() -> (Sender<u64>, Receiver<u64>) {
        mpsc::channel()
    }

    #[inline]
    fn send(sender: &mut Sender<u64>, message: u64) -> bool {
        sender.send(message).is_ok()
    }

    #[inline]
    fn receive(receiver: &mut Receiver<u64>) -> Option<u64> {
        receiver.recv().ok()
    }
}
