//! `crossbeam-channel`, on the kernel's threads.

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::{
    channel::{CAPACITY, Channel, channel},
    item::{CHANNEL, CostMethod, Item},
    threads::Kernel,
};

pub(super) const METHOD: CostMethod = CostMethod {
    name: "crossbeam-channel",
    items: &[
        Item::of(CHANNEL, channel::<Kernel, Holding<0>>).with("kind", "rendezvous"),
        Item::of(CHANNEL, channel::<Kernel, Holding<CAPACITY>>).with("kind", "bounded"),
        Item::of(CHANNEL, channel::<Kernel, Holding<ANY>>).with("kind", "unbounded"),
    ],
};

/// Any number of messages.
const ANY: usize = usize::MAX;

/// Holds so many messages; with 0, who sends waits for who receives.
struct Holding<const MESSAGES: usize>;

impl<const MESSAGES: usize> Channel for Holding<MESSAGES> {
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;

    fn open() -> (Sender<u64>, Receiver<u64>) {
        if MESSAGES == ANY { unbounded() } else { bounded(MESSAGES) }
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
