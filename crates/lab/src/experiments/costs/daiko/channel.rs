//! Messages between fibers, on one worker or from one worker to another.

use daiko::Builder;
use daiko::sync::channel::{Receiver, Sender};

use super::fibers::{Fibers, Spread, Workers, cpus, run_on};
use crate::experiments::costs::channel::channel;
use crate::experiments::costs::threads::Threads;
use crate::kit::{Effort, Failure, Sample};

/// Measures a channel with both ends on one worker.
pub(super) fn beside<W: Workers>(open: Open, effort: Effort) -> Result<Sample, Failure> {
    run_on::<W, _>(1, move || through::<Fibers>(open, effort))
}

/// Measures a channel with its ends on different workers, if at least two CPUs are allowed.
pub(super) fn across<W: Workers>(open: Open, effort: Effort) -> Result<Sample, Failure> {
    run_on::<W, _>(cpus(), move || {
        let first = Builder::new().on(0);
        let producer = first.spawn(move || through::<Spread>(open, effort))?;
        producer.join()?
    })
}

/// Opens a channel.
type Open = fn() -> (Sender<u64>, Receiver<u64>);

fn through<T: Threads>(open: Open, effort: Effort) -> Result<Sample, Failure> {
    let (sender, receiver) = open();
    let receive = move || receiver.recv().ok();
    channel::<T>(move |message| sender.send(message).is_ok(), receive, effort)
}

#[cfg(test)]
mod tests {
    use daiko_sys::thread;

    use super::*;
    use crate::experiments::costs::daiko::fibers;

    #[test]
    fn threads_that_send_across_are_on_different_workers() {
        if cpus() < 2 {
            return println!("skipped: one CPU is allowed");
        }
        let (first, second) = run_on::<fibers::Threads, _>(cpus(), move || {
            let first = Builder::new().on(0).spawn(move || {
                let second = Spread::spawn(1, 2, thread::id)?;
                Ok((thread::id(), Spread::join(second)?))
            });
            first?.join()?
        })
        .unwrap();
        assert_ne!(first, second, "the kernel threads of the workers");
    }
}
