//! `crossbeam-channel` on kernel threads.

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::channel::{CAPACITY, channel};
use super::item::{CostMethod, Item};
use super::threads::KernelThreads;
use crate::kit::{Effort, Failure, Sample};

pub(super) const METHOD: CostMethod = CostMethod::new(
    "crossbeam-channel",
    &[&[
        Item::of("channel", |effort| by(bounded(0), effort)).with("kind", "rendezvous"),
        Item::of("channel", |effort| by(bounded(CAPACITY), effort)).with("kind", "bounded"),
        Item::of("channel", |effort| by(unbounded(), effort)).with("kind", "unbounded"),
    ]],
);

fn by((sender, receiver): (Sender<u64>, Receiver<u64>), effort: Effort) -> Result<Sample, Failure> {
    let receive = move || receiver.recv().ok();
    channel::<KernelThreads>(move |message| sender.send(message).is_ok(), receive, effort)
}
