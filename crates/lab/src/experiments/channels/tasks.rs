//! Channels between tasks of tokio, which have one consumer.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel};
use tokio::task;

use super::load::{Load, Shape, numbers};
use crate::kit::Failure;
use crate::kit::tasks::{TokioKind, broken};

pub(super) fn run_multi_thread(load: &Load) -> Result<(u64, Duration), Failure> {
    run(TokioKind::MultiThread, *load)
}

pub(super) fn run_current_thread(load: &Load) -> Result<(u64, Duration), Failure> {
    run(TokioKind::CurrentThread, *load)
}

fn run(kind: TokioKind, load: Load) -> Result<(u64, Duration), Failure> {
    kind.run(load.workers, async move {
        let start = Instant::now();
        let sum = match (load.shape, load.shape.capacity()) {
            (Shape::Select, _) => select(load.each).await?,
            (_, None) => {
                let (sender, receiver) = unbounded_channel();
                through(produce_unbounded(sender, load.each), consume_unbounded(receiver)).await?
            }
            (_, Some(capacity)) => {
                let (sender, receiver) = channel(capacity);
                through(produce(sender, load.each), consume(receiver)).await?
            }
        };
        Ok((sum, start.elapsed()))
    })
}

async fn through(
    producer: impl Future<Output = ()> + Send + 'static,
    consumer: impl Future<Output = u64> + Send + 'static,
) -> Result<u64, Failure> {
    let consumer = task::spawn(consumer);
    task::spawn(producer).await.map_err(broken)?;
    consumer.await.map_err(broken)
}

async fn produce(sender: Sender<u64>, each: u64) {
    for number in numbers(each) {
        // A closed channel shows in the sum.
        let _ = sender.send(number).await;
    }
}

async fn consume(mut receiver: Receiver<u64>) -> u64 {
    let mut sum = 0;
    while let Some(message) = receiver.recv().await {
        sum += message;
    }
    sum
}

async fn produce_unbounded(sender: UnboundedSender<u64>, each: u64) {
    for number in numbers(each) {
        let _ = sender.send(number);
    }
}

async fn consume_unbounded(mut receiver: UnboundedReceiver<u64>) -> u64 {
    let mut sum = 0;
    while let Some(message) = receiver.recv().await {
        sum += message;
    }
    sum
}

async fn select(each: u64) -> Result<u64, Failure> {
    let ((one, mut first), (other, mut second)) = (unbounded_channel(), unbounded_channel());
    let consumer = task::spawn(async move {
        let mut sum = 0;
        loop {
            tokio::select! {
                Some(message) = first.recv() => sum += message,
                Some(message) = second.recv() => sum += message,
                else => return sum,
            }
        }
    });
    let producers = [one, other].map(|sender| task::spawn(produce_unbounded(sender, each)));
    for producer in producers {
        producer.await.map_err(broken)?;
    }
    consumer.await.map_err(broken)
}
