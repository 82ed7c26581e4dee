//! A channel with room for values: who sends waits while it is full, who receives while it is empty.

use std::ptr::NonNull;

use super::{Buffer, NotPopped, NotPushed, Other, Party};
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::sync::spin_loop;
use crate::wait::{Locked, Node, WaitQueue};

/// How often somebody looks at a place that another is about to be done with, before he relaxes.
const LOOKS: u32 = 64;

/// A buffer, and who waits for it to be filled or emptied.
///
/// Who is woken looks again, and may find that another was faster.
pub struct Buffered<B, W> {
    buffer: B,
    senders: WaitQueue<Party<W>>,
    receivers: WaitQueue<Party<W>>,
}

/// Why a value was not sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// There is no room.
    Full(T),
    /// The channel is closed.
    Closed(T),
}

/// Why no value was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// There is none.
    Empty,
    /// There is none, and none will come.
    Closed,
}

impl<B: Buffer, W: Copy> Buffered<B, W> {
    /// A channel with this buffer.
    pub fn new(buffer: B) -> Self {
        Self { buffer, senders: WaitQueue::new(0), receivers: WaitQueue::new(0) }
    }

    /// The buffer.
    pub fn buffer(&self) -> &B {
        &self.buffer
    }

    /// Sends `value` if there is room. Whom to wake, exactly once.
    #[inline]
    pub fn send(
        &self,
        by: &impl Contender,
        mut value: B::Value,
    ) -> Result<Option<W>, Refused<B::Value>> {
        let mut looks = 0;
        loop {
            value = match self.buffer.push(value) {
                Ok(Other::Runs) => return Ok(None),
                Ok(Other::Queued) => return Ok(self.next_receiver(by)),
                Err(NotPushed::Full(value)) => return Err(Refused::Full(value)),
                Err(NotPushed::Closed(value)) => return Err(Refused::Closed(value)),
                Err(NotPushed::Busy(value)) => value,
            };
            pause(by, &mut looks);
        }
    }

    /// Receives a value if there is one. Whom to wake, exactly once.
    #[inline]
    pub fn receive(&self, by: &impl Contender) -> Result<(B::Value, Option<W>), Nothing> {
        let mut looks = 0;
        loop {
            match self.buffer.pop() {
                Ok((value, Other::Runs)) => return Ok((value, None)),
                Ok((value, Other::Queued)) => return Ok((value, self.next_sender(by))),
                Err(NotPopped::Empty) => return Err(Nothing::Empty),
                Err(NotPopped::Closed) => return Err(Nothing::Closed),
                Err(NotPopped::Busy) => pause(by, &mut looks),
            }
        }
    }

    /// Claims the sender that is first in line.
    #[cold]
    #[must_use = "the waiter is to be woken"]
    pub fn next_sender(&self, by: &impl Contender) -> Option<W> {
        claim(&mut self.senders.lock(by), || self.buffer.nobody_pushes())
    }

    /// Claims the receiver that is first in line.
    #[cold]
    #[must_use = "the waiter is to be woken"]
    pub fn next_receiver(&self, by: &impl Contender) -> Option<W> {
        claim(&mut self.receivers.lock(by), || self.buffer.nobody_pops())
    }

    /// Takes the lock of those who wait to send.
    pub fn senders(&self, by: &impl Contender) -> LockedSide<'_, B, W> {
        LockedSide { buffer: &self.buffer, queue: self.senders.lock(by) }
    }

    /// Takes the lock of those who wait to receive.
    pub fn receivers(&self, by: &impl Contender) -> LockedSide<'_, B, W> {
        LockedSide { buffer: &self.buffer, queue: self.receivers.lock(by) }
    }
}

/// One side of a channel, whose lock is held.
pub struct LockedSide<'c, B, W> {
    buffer: &'c B,
    queue: Locked<'c, Party<W>>,
}

impl<B: Buffer, W: Copy> LockedSide<'_, B, W> {
    /// Whether whoever is queued now to send will be claimed; otherwise he looks again.
    #[must_use]
    pub fn announce_sender(&mut self) -> bool {
        cfg!(weaken = "channel-announce") || self.buffer.announce_push()
    }

    /// Whether whoever is queued now to receive will be claimed; otherwise he looks again.
    #[must_use]
    pub fn announce_receiver(&mut self) -> bool {
        cfg!(weaken = "channel-announce") || self.buffer.announce_pop()
    }

    /// Adds `node`, after the announcement under this lock: as the oldest if he was claimed before.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`].
    pub unsafe fn enqueue(&mut self, node: NonNull<Node<Party<W>>>, was_claimed: bool) {
        // SAFETY: passed on to the caller.
        unsafe {
            if was_claimed { self.queue.enqueue_first(node) } else { self.queue.enqueue(node) }
        }
    }

    /// Takes `node` out, unless it was claimed before. Who is announced stays so: the next of the
    /// other side finds out.
    ///
    /// # Safety
    ///
    /// As for [`Locked::unlink`].
    pub unsafe fn leave(&mut self, node: NonNull<Node<Party<W>>>) -> Unlinked {
        // SAFETY: passed on to the caller.
        unsafe { self.queue.unlink(node) }
    }
}

/// Claims who is first in line; says that nobody is any more.
fn claim<W: Copy>(queue: &mut Locked<'_, Party<W>>, nobody: impl FnOnce()) -> Option<W> {
    let claimed = queue.claim_first_that(0, |party| party.try_claim());
    if queue.is_empty() {
        nobody();
    }
    claimed.map(|party| party.waiter)
}

fn pause(by: &impl Contender, looks: &mut u32) {
    *looks += 1;
    if looks.is_multiple_of(LOOKS) { by.relax() } else { spin_loop() }
}
