//! `eventfd`: messages in slots; a counter for the server and one for each client, each read by
//! whom it belongs to.
//!
//! One counter for all clients and a look at all slots: an epoll over a counter for each client
//! takes a call more for each round, and one more for each client in it.

use std::{
    convert::Infallible,
    fs::File,
    io::{self, Read, Write},
    os::fd::{FromRawFd, OwnedFd},
};

use super::{client::Questions, method::Link, slot::Slot};
use crate::kit::{Failure, Shared, again};

pub(super) struct EventFd {
    slots: Shared<Slot>,
    server: Counter,
    clients: Vec<Counter>,
}

/// An event counter, whose reader waits until it is not 0, and clears it.
struct Counter(File);

impl Counter {
    fn new() -> io::Result<Self> {
        // SAFETY: always safe to call.
        let fd = again(|| unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
        // SAFETY: `fd` is open and nobody else's.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    fn wait(&self) -> io::Result<()> {
        (&self.0).read_exact(&mut [0; 8])
    }

    fn tell(&self) -> io::Result<()> {
        (&self.0).write_all(&1u64.to_ne_bytes())
    }
}

impl Link for EventFd {
    const NAME: &'static str = "eventfd";

    fn open(clients: usize) -> Result<Self, Failure> {
        let slots = Shared::new(clients)?;
        let failure = |error| Failure::Limit(format!("eventfd: {error}"));
        let counters = (0..clients).map(|_| Counter::new()).collect::<io::Result<_>>();
        let server = Counter::new().map_err(failure)?;
        Ok(Self { slots, server, clients: counters.map_err(failure)? })
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        loop {
            self.server.wait()?;
            for (slot, client) in self.slots.iter().zip(&self.clients) {
                if slot.answer::<WORDS>() {
                    client.tell()?;
                }
            }
        }
    }

    fn ask<const WORDS: usize>(
        &self,
        client: usize,
        questions: Questions<'_, WORDS>,
    ) -> io::Result<()> {
        let (slot, own) = (&self.slots[client], &self.clients[client]);
        questions.ask(|message| {
            slot.ask(message);
            self.server.tell()?;
            own.wait()?;
            *message = slot.answered().ok_or(io::ErrorKind::InvalidData)?;
            Ok(())
        })
    }
}
