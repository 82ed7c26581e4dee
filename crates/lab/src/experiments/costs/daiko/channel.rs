//! Messages from fiber to fiber: on one worker, or from one worker to another.

use daiko::{
    Builder,
    sync::channel::{self, Receiver, Sender},
};

use super::{Fibers, Kind, Spread, cpus, run, run_on};
use crate::{
    experiments::costs::channel::{CAPACITY, Channel, channel},
    kit::{Effort, Failure, Sample},
};

pub(super) type Rendezvous = Holding<0>;
pub(super) type Bounded = Holding<CAPACITY>;
pub(super) type Unbounded = Holding<{ usize::MAX }>;

/// Holds so many messages; the most: any number.
pub(super) struct Holding<const MESSAGES: usize>;

impl<const MESSAGES: usize> Channel for Holding<MESSAGES> {
    type Sender = Sender<u64>;
    type Receiver = Receiver<u64>;

    fn open() -> (Sender<u64>, Receiver<u64>) {
        if MESSAGES == usize::MAX { channel::unbounded() } else { channel::bounded(MESSAGES) }
    }

    #[inline(always)]
    fn send(sender: &mut Sender<u64>, message: u64) -> bool {
        sender.send(message).is_ok()
    }

    #[inline(always)]
    fn receive(receiver: &mut Receiver<u64>) -> Option<u64> {
        receiver.recv().ok()
    }
}

/// Both on one worker.
pub(super) fn beside<K: Kind, C: Channel>(effort: Effort) -> Result<Sample, Failure> {
    run::<K>(channel::<Fibers, C>, effort)
}

/// The consumer on another worker than the producer, if there is another CPU.
pub(super) fn across<K: Kind, C: Channel>(effort: Effort) -> Result<Sample, Failure> {
    run_on::<K, _>(cpus(), move || {
        let first = Builder::new().on(0);
        let producer = first.spawn(move || channel::<Spread, C>(effort))?;
        producer.join()?
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::experiments::costs::{daiko, threads::Threads};

    #[test]
    fn who_sends_across_is_on_another_worker() {
        if cpus() < 2 {
            return println!("skipped: one CPU is allowed");
        }
        let on = |thread: thread::Thread| thread.name().map(str::to_owned);
        let (first, second) = run_on::<daiko::Threads, _>(cpus(), move || {
            let first = Builder::new().on(0).spawn(move || {
                let second = Spread::spawn(1, 2, move || on(thread::current()))?;
                Ok((on(thread::current()), Spread::join(second)?))
            });
            first?.join()?
        })
        .unwrap();
        assert!(first.is_some() && second.is_some() && first != second, "{first:?}, {second:?}");
    }
}
