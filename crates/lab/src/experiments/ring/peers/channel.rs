//! `crossbeam-channel`: a bounded channel per kernel thread, which carries the
//! datum itself.

use std::io;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::experiments::ring::kernel::harness::{Conductor, Port};

/// Both ends of a channel. It holds at most one waiting datum.
pub(super) struct ChannelPort {
    sender: Sender<u64>,
    receiver: Receiver<u64>,
}

pub(super) fn open(threads: usize) -> io::Result<Vec<ChannelPort>> {
    let channel = |_| {
        let (sender, receiver) = bounded(1);
        ChannelPort { sender, receiver }
    };
    Ok((0..threads).map(channel).collect())
}

impl Port for ChannelPort {
    fn receive(&self, last: u64, _: &Conductor) -> u64 {
        // A port has a sender of its own, so it never disconnects.
        self.receiver.recv().unwrap_or(last)
    }

    fn send(&self, datum: u64) {
        // After the end was announced, the channel may hold a rouse. Its owner then ends without
        // the datum.
        let _ = self.sender.try_send(datum);
    }

    fn rouse(&self) {
        // A full channel rouses as well.
        let _ = self.sender.try_send(0);
    }
}
