//! Channels between fibers.

use std::time::Duration;

use daiko::sync::channel::{Receiver, Sender, bounded, rendezvous, unbounded};
use daiko::{JoinHandle, Runtime};

use super::load::{Load, Shape, numbers, timed};
use crate::kit::Failure;

pub(super) fn run(load: &Load) -> Result<(u64, Duration), Failure> {
    let runtime = Runtime::builder().workers(load.workers).bind(true).build()?;
    let load = *load;
    let all = runtime.spawn(move || {
        timed(|| if load.shape == Shape::Select { select(&load) } else { through(&load) })
    });
    all.join()?
}

fn open(capacity: Option<usize>) -> (Sender<u64>, Receiver<u64>) {
    match capacity {
        None => unbounded(),
        Some(0) => rendezvous(),
        Some(capacity) => bounded(capacity),
    }
}

fn through(load: &Load) -> Result<u64, Failure> {
    let (sender, receiver) = open(load.shape.capacity());
    let consumers: Vec<_> = vec![receiver; load.shape.ends()].into_iter().map(consume).collect();
    let senders = vec![sender; load.shape.ends()];
    let producers: Vec<_> = senders.into_iter().map(|sender| produce(sender, load.each)).collect();
    finish(producers, consumers)
}

fn consume(receiver: Receiver<u64>) -> JoinHandle<u64> {
    daiko::spawn(move || {
        let mut sum = 0;
        while let Ok(message) = receiver.recv() {
            sum += message;
        }
        sum
    })
}

fn produce(sender: Sender<u64>, each: u64) -> JoinHandle<()> {
    daiko::spawn(move || {
        // A closed channel shows in the sum.
        let _ = numbers(each).all(|number| sender.send(number).is_ok());
    })
}

fn select(load: &Load) -> Result<u64, Failure> {
    let ((one, first), (other, second)) = (unbounded(), unbounded());
    let consumer = daiko::spawn(move || {
        let mut sum = 0;
        // Selects until one of the channels is closed.
        let rest = loop {
            daiko::select! {
                recv(first) -> message => match message {
                    Ok(message) => sum += message,
                    Err(_) => break &second,
                },
                recv(second) -> message => match message {
                    Ok(message) => sum += message,
                    Err(_) => break &first,
                },
            }
        };
        while let Ok(message) = rest.recv() {
            sum += message;
        }
        sum
    });
    finish(vec![produce(one, load.each), produce(other, load.each)], vec![consumer])
}

fn finish(producers: Vec<JoinHandle<()>>, consumers: Vec<JoinHandle<u64>>) -> Result<u64, Failure> {
    producers.into_iter().try_for_each(JoinHandle::join)?;
    let mut sum = 0;
    for consumer in consumers {
        sum += consumer.join()?;
    }
    Ok(sum)
}
