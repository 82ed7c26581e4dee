//! Messages in slots; one bell for the server and one for each client. Each owner waits for its
//! bell.

use std::convert::Infallible;
use std::io;

use super::client::Calls;
use super::method::{IpcSpec, Link};
use super::slot::MessageSlot;
use crate::kit::{Failure, ForkShared, OrFailure};

/// A bell that wakes its owner, which waits for it.
pub(super) trait SlotBell: Sized {
    /// The method's name.
    const NAME: &'static str;
    /// Whether one wait consumes all earlier rings, so that the server must look at all slots.
    const IS_FOR_ALL: bool;
    /// Several bells, usable by forked processes.
    type Bells;

    /// Creates `count` bells.
    fn open(count: usize) -> io::Result<Self::Bells>;

    /// Returns bell `index`.
    fn get(bells: &Self::Bells, index: usize) -> &Self;

    fn wait(&self) -> io::Result<()>;

    fn ring(&self) -> io::Result<()>;
}

pub(super) struct Slotted<B: SlotBell> {
    slots: ForkShared<MessageSlot>,
    /// The bells of the clients, then that of the server.
    bells: B::Bells,
}

impl<B: SlotBell> Slotted<B> {
    fn server(&self) -> &B {
        B::get(&self.bells, self.slots.len())
    }
}

impl<B: SlotBell> Link for Slotted<B> {
    const NAME: &'static str = B::NAME;

    fn open(spec: &IpcSpec) -> Result<Self, Failure> {
        let bells = B::open(spec.clients + 1).or_limit(B::NAME)?;
        Ok(Self { slots: ForkShared::new(spec.clients)?, bells })
    }

    /// If each ring stands for one question, the clients are served in turn: all get the same
    /// share.
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
            slot.take_answer(message).then_some(()).ok_or(io::ErrorKind::InvalidData.into())
        })
    }
}
