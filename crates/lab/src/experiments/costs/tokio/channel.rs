//! Cost of sending numbers from one task to another, with all CPUs allowed. There is no rendezvous
//! channel.

use std::sync::Arc;

use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, UnboundedSender};
use tokio::task;

use super::runtime::broken;
use crate::experiments::costs::channel::{Begun, CAPACITY, FIRST, Receipt, Sent};
use crate::kit::{Effort, Failure, Sample};

/// The asynchronous counterpart of the channel of threads.
pub(super) trait AsyncChannel: 'static {
    type Sender: Send + 'static;
    type Receiver: Send + 'static;

    fn open() -> (Self::Sender, Self::Receiver);

    fn send(sender: &mut Self::Sender, message: u64) -> impl Future<Output = bool> + Send;

    fn receive(receiver: &mut Self::Receiver) -> impl Future<Output = Option<u64>> + Send;
}

pub(super) async fn channel<C: AsyncChannel>(effort: Effort) -> Result<Sample, Failure> {
    let (sender, receiver) = C::open();
    let begun = Arc::new(Begun::default());
    let consumer = task::spawn(consume::<C>(receiver, Arc::clone(&begun)));
    let sent = produce::<C>(sender, &begun, effort).await;
    consumer.await.map_err(broken)?.timed(sent)
}

async fn produce<C: AsyncChannel>(mut sender: C::Sender, begun: &Begun, effort: Effort) -> Sent {
    C::send(&mut sender, FIRST).await;
    while !begun.has() {
        task::yield_now().await;
    }
    let mut sent = Sent::begin(effort);
    while let Some(message) = sent.next_message()
        && C::send(&mut sender, message).await
    {}
    sent
}

async fn consume<C: AsyncChannel>(mut receiver: C::Receiver, begun: Arc<Begun>) -> Receipt {
    let mut receipt = Receipt::default();
    while let Some(message) = C::receive(&mut receiver).await {
        begun.set();
        if !receipt.take(message) {
            break;
        }
    }
    begun.set();
    receipt.close()
}

/// A channel that holds [`CAPACITY`] messages.
pub(super) struct Bounded;

impl AsyncChannel for Bounded {
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;

    fn open() -> (Sender<u64>, Receiver<u64>) {
        mpsc::channel(CAPACITY)
    }

    async fn send(sender: &mut Sender<u64>, message: u64) -> bool {
        sender.send(message).await.is_ok()
    }

    async fn receive(receiver: &mut Receiver<u64>) -> Option<u64> {
        receiver.recv().await
    }
}

/// A channel that holds any number of messages.
pub(super) struct Unbounded;

impl AsyncChannel for Unbounded {
    type Sender = UnboundedSender<u64>;
    type Receiver = UnboundedReceiver<u64>;

    fn open() -> (UnboundedSender<u64>, UnboundedReceiver<u64>) {
        mpsc::unbounded_channel()
    }

    async fn send(sender: &mut UnboundedSender<u64>, message: u64) -> bool {
        sender.send(message).is_ok()
    }

    async fn receive(receiver: &mut UnboundedReceiver<u64>) -> Option<u64> {
        receiver.recv().await
    }
}
