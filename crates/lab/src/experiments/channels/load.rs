//! The shapes of channels, and the messages to send.

use std::time::{Duration, Instant};

use crate::kit::{Choice, Failure};

/// Number of messages that a bounded channel holds.
const CAPACITY: usize = 128;

/// The shape of a channel, and the number of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Unbounded1,
    Unbounded4,
    Bounded1,
    Bounded4,
    Single1,
    Single4,
    Rendezvous,
    Select,
}

impl Choice for Shape {
    const NAMES: &'static [(Self, &'static str)] = &[
        (Self::Unbounded1, "unbounded-1-1"),
        (Self::Unbounded4, "unbounded-4-4"),
        (Self::Bounded1, "bounded-1-1"),
        (Self::Bounded4, "bounded-4-4"),
        (Self::Single1, "single-1-1"),
        (Self::Single4, "single-4-4"),
        (Self::Rendezvous, "rendezvous-1-1"),
        (Self::Select, "select"),
    ];
}

impl Shape {
    /// Number of messages that the channel holds; `None` without a bound.
    pub(super) fn capacity(self) -> Option<usize> {
        match self {
            Self::Unbounded1 | Self::Unbounded4 | Self::Select => None,
            Self::Bounded1 | Self::Bounded4 => Some(CAPACITY),
            Self::Single1 | Self::Single4 => Some(1),
            Self::Rendezvous => Some(0),
        }
    }

    /// Number of producers and of consumers of a channel.
    pub(super) fn ends(self) -> usize {
        match self {
            Self::Unbounded4 | Self::Bounded4 | Self::Single4 => 4,
            _ => 1,
        }
    }
}

/// Messages to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) shape: Shape,
    pub(super) workers: usize,
    /// Messages of each producer.
    pub(super) each: u64,
}

impl Load {
    pub(super) fn new(shape: Shape, workers: usize, messages: u64) -> Self {
        Self { shape, workers, each: messages.div_ceil(producers(shape)).max(1) }
    }

    pub(super) fn messages(&self) -> u64 {
        self.each * producers(self.shape)
    }

    /// Sum of all messages, if each producer sends the numbers up to `each`.
    pub(super) fn sum(&self) -> u64 {
        producers(self.shape) * (self.each * (self.each + 1) / 2)
    }
}

fn producers(shape: Shape) -> u64 {
    if shape == Shape::Select { 2 } else { shape.ends() as u64 }
}

/// The numbers that a producer sends.
pub(super) fn numbers(each: u64) -> impl Iterator<Item = u64> {
    1..=each
}

/// Runs `body`, and returns its result and its time.
pub(super) fn timed<T>(
    body: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, Duration), Failure> {
    let start = Instant::now();
    let result = body()?;
    Ok((result, start.elapsed()))
}
