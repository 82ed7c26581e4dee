//! `eventfd`: messages in slots; a counter for the server and one for each client, each read by its
//! owner.
//!
//! One counter for all clients and a look at all slots: an epoll over a counter for each client
//! takes a call more for each round, and one more for each client in it.

use std::fs::File;
use std::io::{self, Read, Write};

use super::slotted::Bell;
use crate::kit::files;

/// An event counter, whose reader waits until it is not 0, and clears it.
pub(super) struct EventFd(File);

impl Bell for EventFd {
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
