//! `eventfd`: messages in slots, one counter for the server and one for each client. Each counter
//! is read by its owner.
//!
//! The server has one counter for all clients, and looks at all slots. An epoll over one counter
//! per client would take one call more in each round, and one more for each client in it.

use std::fs::File;
use std::io::{self, Read, Write};

use super::slotted::SlotBell;
use crate::kit::files;

/// An event counter. Its reader waits until it is not 0, and clears it.
pub(super) struct EventFd(File);

impl SlotBell for EventFd {
    const NAME: &'static str = "eventfd";
    const IS_FOR_ALL: bool = true;
    type Bells = Vec<Self>;

    fn open(count: usize) -> io::Result<Vec<Self>> {
        (0..count).map(|_| files::event_counter().map(Self)).collect()
    }

    fn get(bells: &Vec<Self>, index: usize) -> &Self {
        &bells[index]
    }

    fn wait(&self) -> io::Result<()> {
        (&self.0).read_exact(&mut [0; 8])
    }

    fn ring(&self) -> io::Result<()> {
        (&self.0).write_all(&1u64.to_ne_bytes())
    }
}
