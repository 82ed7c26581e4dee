//! `std::sync::mpsc` on kernel threads.

use std::sync::mpsc;

use super::channel::{CAPACITY, channel};
use super::item::{CostMethod, Item};
use super::threads::KernelThreads;
use crate::kit::{Effort, Failure, Sample};

pub(super) const METHOD: CostMethod = CostMethod::new(
    "std-mpsc",
    &[&[
        Item::of("channel", |effort| bounded(0, effort)).with("kind", "rendezvous"),
        Item::of("channel", |effort| bounded(CAPACITY, effort)).with("kind", "bounded"),
        Item::of("channel", unbounded).with("kind", "unbounded"),
    ]],
);

/// Measures a channel that holds this many messages; with 0, the sender waits for the receiver.
fn bounded(messages: usize, effort: Effort) -> Result<Sample, Failure> {
    let (sender, receiver) = mpsc::sync_channel(messages);
    let receive = move || receiver.recv().ok();
    channel::<KernelThreads>(move |message| sender.send(message).is_ok(), receive, effort)
}

/// Measures a channel that holds any number of messages.
fn unbounded(effort: Effort) -> Result<Sample, Failure> {
    let (sender, receiver) = mpsc::channel();
    let receive = move || receiver.recv().ok();
    channel::<KernelThreads>(move |message| sender.send(message).is_ok(), receive, effort)
}
