//! Messages in slots; a bell for the server and one for each client, each waited for by its owner.

use std::convert::Infallible;
use std::io;

use super::client::Calls;
use super::method::Link;
use super::slot::Slot;
use crate::kit::{Failure, OrFailure, Shared};

/// Wakes its owner, who waits for it.
pub(super) trait Bell: Sized {
    /// The method's name.
    const NAME: &'static str;
    /// Whether one wait is for all rings before it, so that the server looks at all slots.
    const IS_FOR_ALL: bool;
    /// Several of them, for forked processes.
    type Bells;

    /// Makes so many.
    fn open(count: usize) -> io::Result<Self::Bells>;

    /// One of them.
    fn get(bells: &Self::Bells, index: usize) -> &Self;

    fn wait(&self) -> io::Result<()>;

    fn ring(&self) -> io::Result<()>;
}

pub(super) struct Slotted<B: Bell> {
    slots: Shared<Slot>,
    /// Each client's, then the server's.
    bells: B::Bells,
}

impl<B: Bell> Slotted<B> {
    fn server(&self) -> &B {
        B::get(&self.bells, self.slots.len())
    }
}

impl<B: Bell> Link for Slotted<B> {
    const NAME: &'static str = B::NAME;

    fn open(clients: usize) -> Result<Self, Failure> {
        let bells = B::open(clients + 1).or_limit(B::NAME)?;
        Ok(Self { slots: Shared::new(clients)?, bells })
    }

    /// A ring for one question serves one client after the other: all have the same share.
    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        let clients = self.slots.len();
        let mut first = 0;
        loop {
            self.server().wait()?;
            for client in (first..clients).chain(0..first) {
                if self.slots[client].answer::<WORDS>() {
                    B::get(&self.bells, client).ring()?;
                    if !B::IS_FOR_ALL {
                        first = client + 1;
                        break;
                    }
                }
            }
        }
    }

    fn ask<const WORDS: usize>(&self, client: usize, calls: Calls<'_, WORDS>) -> io::Result<()> {
        let (slot, own) = (&self.slots[client], B::get(&self.bells, client));
        calls.make(|message| {
            slot.ask(message);
            self.server().ring()?;
            own.wait()?;
            *message = slot.answered().ok_or(io::ErrorKind::InvalidData)?;
            Ok(())
        })
    }
}
