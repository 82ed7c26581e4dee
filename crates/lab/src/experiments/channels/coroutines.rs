//! Channels between coroutines of may, which have no bound.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use may::coroutine::JoinHandle;
use may::sync::{mpmc, mpsc};

use super::load::{Load, Shape, numbers, timed};
use crate::kit::{Failure, coroutines};

pub(super) fn run(load: &Load) -> Result<(u64, Duration), Failure> {
    coroutines::configure(load.workers, None);
    let load = *load;
    coroutines::run(move || {
        timed(|| match load.shape {
            Shape::Select => select(load.each),
            _ if load.shape.ends() > 1 => through_many(&load),
            _ => through(load.each),
        })
    })
}

fn through(each: u64) -> Result<u64, Failure> {
    let (sender, receiver) = mpsc::channel();
    let consumer = may::go!(move || receiver.iter().sum());
    finish(vec![produce(sender, each)], vec![consumer])
}

fn through_many(load: &Load) -> Result<u64, Failure> {
    let (sender, receiver) = mpmc::channel::<u64>();
    let receivers = vec![receiver; load.shape.ends()];
    let consumers: Vec<JoinHandle<u64>> =
        receivers.into_iter().map(|receiver| may::go!(move || receiver.iter().sum())).collect();
    let each = load.each;
    let producers = vec![sender; load.shape.ends()].into_iter().map(|sender| {
        may::go!(move || {
            // A closed channel shows in the sum.
            let _ = numbers(each).all(|number| sender.send(number).is_ok());
        })
    });
    finish(producers.collect(), consumers)
}

fn produce(sender: mpsc::Sender<u64>, each: u64) -> JoinHandle<()> {
    may::go!(move || {
        let _ = numbers(each).all(|number| sender.send(number).is_ok());
    })
}

/// Receives by an event queue, which has a coroutine for each of the channels.
fn select(each: u64) -> Result<u64, Failure> {
    let ((one, first), (other, second)) = (mpsc::channel::<u64>(), mpsc::channel::<u64>());
    let consumer = may::go!(move || {
        let sum = AtomicU64::new(0);
        // Relaxed: the queue runs one of the two at a time.
        let add = |message| {
            sum.fetch_add(message, Ordering::Relaxed);
        };
        may::cqueue::scope(|queue| {
            may::cqueue_add!(queue, 0, message = first.recv() => match message {
                Ok(message) => add(message),
                Err(_) => return,
            });
            may::cqueue_add!(queue, 1, message = second.recv() => match message {
                Ok(message) => add(message),
                Err(_) => return,
            });
            while queue.poll(None).is_ok() {}
        });
        sum.into_inner()
    });
    finish(vec![produce(one, each), produce(other, each)], vec![consumer])
}

fn finish(producers: Vec<JoinHandle<()>>, consumers: Vec<JoinHandle<u64>>) -> Result<u64, Failure> {
    producers.into_iter().try_for_each(coroutines::join)?;
    let mut sum = 0;
    for consumer in consumers {
        sum += coroutines::join(consumer)?;
    }
    Ok(sum)
}
