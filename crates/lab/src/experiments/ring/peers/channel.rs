//! `crossbeam-channel`: a bounded channel per kernel thread, which carries the
//! datum itself.

use std::io;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::experiments::ring::kernel::harness::{Conductor, Port};

/// Both ends; a datum that waits is the only one.
pub(super) struct Channel {
    sender: Sender<u64>,
    receiver: Receiver<u64>,
}

pub(super) fn open(threads: usize) -> io::Result<Vec<Channel>> {
    let channel = |_| {
        let (sender, receiver) = bounded(1);
        Channel { sender, receiver }
    };
    Ok((0..threads).map(channel).collect())
}

impl Port for Channel {
    fn receive(&self, last: u64, _: &Conductor) -> u64 {
        // A port has a sender of its own: it never disconnects.
        self.receiver.recv().unwrap_or(last)
    }

    fn send(&self, datum: u64) {
        // An end that was announced may have left a rouse in the channel: its
        // owner leaves without the datum.
        let _ = self.sender.try_send(datum);
    }

    fn rouse(&self) {
        // A full channel rouses too.
        let _ = self.sender.try_send(0);
    }
}
