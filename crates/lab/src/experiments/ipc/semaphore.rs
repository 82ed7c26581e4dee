//! `semaphore`: messages in slots; a `sem_t` shared by processes for the server and one for each
//! client.

use std::{cell::UnsafeCell, convert::Infallible, io, mem::MaybeUninit};

use super::{client::Questions, method::Link, slot::Slot};
use crate::kit::{Failure, Shared, Zeroed, again};

pub(super) struct Semaphore {
    slots: Shared<Slot>,
    /// Each client's, then the server's.
    semaphores: Shared<Count>,
}

/// A semaphore for processes, on lines of its own.
#[repr(C, align(128))]
struct Count(UnsafeCell<MaybeUninit<libc::sem_t>>);

// SAFETY: it is used through its own functions only, which synchronise processes, once `open` has
// initialised it; memory of zeros is a value that is not initialised. It holds no address.
unsafe impl Zeroed for Count {}
// SAFETY: as above.
unsafe impl Sync for Count {}

impl Count {
    /// Once, before others see it.
    fn init(&self) -> io::Result<()> {
        // SAFETY: valid for writes, and nobody else's yet.
        again(|| unsafe { libc::sem_init(self.get(), 1, 0) }).map(drop)
    }

    fn wait(&self) -> io::Result<()> {
        // SAFETY: initialised by `open`.
        again(|| unsafe { libc::sem_wait(self.get()) }).map(drop)
    }

    fn post(&self) -> io::Result<()> {
        // SAFETY: initialised by `open`.
        again(|| unsafe { libc::sem_post(self.get()) }).map(drop)
    }

    fn get(&self) -> *mut libc::sem_t {
        self.0.get().cast()
    }
}

impl Semaphore {
    fn server(&self) -> &Count {
        &self.semaphores[self.slots.len()]
    }
}

impl Link for Semaphore {
    const NAME: &'static str = "semaphore";

    fn open(clients: usize) -> Result<Self, Failure> {
        let semaphores = Shared::<Count>::new(clients + 1)?;
        let initialised = semaphores.iter().try_for_each(Count::init);
        initialised.map_err(|error| Failure::Limit(format!("sem_init: {error}")))?;
        Ok(Self { slots: Shared::new(clients)?, semaphores })
    }

    /// One question for each post, from one client after the other: all have the same share.
    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        let clients = self.slots.len();
        let mut next = 0;
        loop {
            self.server().wait()?;
            let mut turns = (next..clients).chain(0..next);
            if let Some(client) = turns.find(|&client| self.slots[client].answer::<WORDS>()) {
                self.semaphores[client].post()?;
                next = client + 1;
            }
        }
    }

    fn ask<const WORDS: usize>(
        &self,
        client: usize,
        questions: Questions<'_, WORDS>,
    ) -> io::Result<()> {
        let (slot, own) = (&self.slots[client], &self.semaphores[client]);
        questions.ask(|message| {
            slot.ask(message);
            self.server().post()?;
            own.wait()?;
            *message = slot.answered().ok_or(io::ErrorKind::InvalidData)?;
            Ok(())
        })
    }
}
