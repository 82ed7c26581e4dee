//! Channels between kernel threads.

use std::thread;
use std::time::Duration;

use daiko_sys::cpu::{self, CpuSet};

use super::load::{Load, Shape, numbers, timed};
use crate::kit::{Failure, OrFailure, host};

/// A channel of a library for threads.
pub(super) trait ThreadChannel {
    type Sender: Send + 'static;
    type Receiver: Send + 'static;

    /// Opens a channel with so many copies of both ends. It holds `capacity` messages, or any
    /// number.
    fn open(capacity: Option<usize>, ends: usize) -> (Vec<Self::Sender>, Vec<Self::Receiver>);
    /// Sends a message. Returns false if the channel is closed.
    fn send(sender: &Self::Sender, message: u64) -> bool;
    /// Receives a message; `None` if the channel is closed.
    fn receive(receiver: &Self::Receiver) -> Option<u64>;
    /// Receives from two channels until both are closed, and returns the sum.
    fn select(one: Self::Receiver, other: Self::Receiver) -> u64 {
        drop((one, other));
        0
    }
}

pub(super) fn run<C: ThreadChannel>(load: &Load) -> Result<(u64, Duration), Failure> {
    let cpus: Vec<usize> = host::cpu_list().into_iter().take(load.workers).collect();
    cpu::bind_current(&CpuSet::from_iter(cpus)).or_broken("sched_setaffinity")?;
    timed(|| if load.shape == Shape::Select { select::<C>(load) } else { through::<C>(load) })
}

fn through<C: ThreadChannel>(load: &Load) -> Result<u64, Failure> {
    let (senders, receivers) = C::open(load.shape.capacity(), load.shape.ends());
    let consume = |receiver: C::Receiver| {
        move || std::iter::from_fn(|| C::receive(&receiver)).fold(0u64, u64::wrapping_add)
    };
    let consumers: Vec<_> =
        receivers.into_iter().map(|receiver| thread::spawn(consume(receiver))).collect();
    let producers: Vec<_> = senders.into_iter().map(|sender| produce::<C>(sender, load)).collect();
    producers.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    Ok(consumers.into_iter().map(|thread| thread.join().expect("it does not panic")).sum())
}

fn produce<C: ThreadChannel>(sender: C::Sender, load: &Load) -> thread::JoinHandle<()> {
    let each = load.each;
    thread::spawn(move || {
        // A closed channel shows in the sum.
        let _ = numbers(each).all(|number| C::send(&sender, number));
    })
}

fn select<C: ThreadChannel>(load: &Load) -> Result<u64, Failure> {
    let open = || C::open(None, 1);
    let ((mut one, mut first), (mut other, mut second)) = (open(), open());
    let ends = first.pop().zip(second.pop()).expect("a receiver each");
    let consumer = thread::spawn(move || C::select(ends.0, ends.1));
    let senders = one.drain(..).chain(other.drain(..));
    let producers: Vec<_> = senders.map(|sender| produce::<C>(sender, load)).collect();
    producers.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    Ok(consumer.join().expect("it does not panic"))
}

/// Copies of both ends.
fn copies<S: Clone, R: Clone>((sender, receiver): (S, R), ends: usize) -> (Vec<S>, Vec<R>) {
    (vec![sender; ends], vec![receiver; ends])
}

/// `crossbeam-channel`.
pub(super) struct Crossbeam;

impl ThreadChannel for Crossbeam {
    type Sender = crossbeam_channel::Sender<u64>;
    type Receiver = crossbeam_channel::Receiver<u64>;

    fn open(capacity: Option<usize>, ends: usize) -> (Vec<Self::Sender>, Vec<Self::Receiver>) {
        copies(capacity.map_or_else(crossbeam_channel::unbounded, crossbeam_channel::bounded), ends)
    }

    fn send(sender: &Self::Sender, message: u64) -> bool {
        sender.send(message).is_ok()
    }

    fn receive(receiver: &Self::Receiver) -> Option<u64> {
        receiver.recv().ok()
    }

    fn select(mut one: Self::Receiver, mut other: Self::Receiver) -> u64 {
        let (mut sum, mut open) = (0u64, 2);
        while open > 0 {
            crossbeam_channel::select! {
                recv(one) -> message => match message {
                    Ok(message) => sum += message,
                    Err(_) => { open -= 1; one = crossbeam_channel::never(); }
                },
                recv(other) -> message => match message {
                    Ok(message) => sum += message,
                    Err(_) => { open -= 1; other = crossbeam_channel::never(); }
                },
            }
        }
        sum
    }
}

/// `flume`.
pub(super) struct Flume;

impl ThreadChannel for Flume {
    type Sender = flume::Sender<u64>;
    type Receiver = flume::Receiver<u64>;

    fn open(capacity: Option<usize>, ends: usize) -> (Vec<Self::Sender>, Vec<Self::Receiver>) {
        copies(capacity.map_or_else(flume::unbounded, flume::bounded), ends)
    }

    fn send(sender: &Self::Sender, message: u64) -> bool {
        sender.send(message).is_ok()
    }

    fn receive(receiver: &Self::Receiver) -> Option<u64> {
        receiver.recv().ok()
    }
}

/// `kanal`.
pub(super) struct Kanal;

impl ThreadChannel for Kanal {
    type Sender = kanal::Sender<u64>;
    type Receiver = kanal::Receiver<u64>;

    fn open(capacity: Option<usize>, ends: usize) -> (Vec<Self::Sender>, Vec<Self::Receiver>) {
        copies(capacity.map_or_else(kanal::unbounded, kanal::bounded), ends)
    }

    fn send(sender: &Self::Sender, message: u64) -> bool {
        sender.send(message).is_ok()
    }

    fn receive(receiver: &Self::Receiver) -> Option<u64> {
        receiver.recv().ok()
    }
}

/// `std::sync::mpsc`.
pub(super) struct Mpsc;

/// The sending end, which has two types.
pub(super) enum MpscSender {
    Unbounded(std::sync::mpsc::Sender<u64>),
    Bounded(std::sync::mpsc::SyncSender<u64>),
}

impl ThreadChannel for Mpsc {
    type Sender = MpscSender;
    type Receiver = std::sync::mpsc::Receiver<u64>;

    fn open(capacity: Option<usize>, _ends: usize) -> (Vec<MpscSender>, Vec<Self::Receiver>) {
        let (sender, receiver) = match capacity {
            None => {
                let (sender, receiver) = std::sync::mpsc::channel();
                (MpscSender::Unbounded(sender), receiver)
            }
            Some(capacity) => {
                let (sender, receiver) = std::sync::mpsc::sync_channel(capacity);
                (MpscSender::Bounded(sender), receiver)
            }
        };
        (vec![sender], vec![receiver])
    }

    fn send(sender: &MpscSender, message: u64) -> bool {
        match sender {
            MpscSender::Unbounded(sender) => sender.send(message).is_ok(),
            MpscSender::Bounded(sender) => sender.send(message).is_ok(),
        }
    }

    fn receive(receiver: &Self::Receiver) -> Option<u64> {
        receiver.recv().ok()
    }
}
