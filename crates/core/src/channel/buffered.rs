//! A channel with room for values: senders wait while it is full, receivers while it is empty.

use std::ptr::NonNull;

use super::{Buffer, NotPushed, Nothing, Other, Party, Refused, Side, Stored};
use crate::atomic::spin_loop;
use crate::list::Unlinked;
use crate::lock::Contender;
use crate::wait::{Locked, Node, WaitQueue};

/// Number of looks at a place that another thread is about to release, before the caller relaxes.
const LOOKS: u32 = 64;

/// A buffer, with queues of parties that wait for it to be filled or emptied.
///
/// A woken party looks again, and may find that another party was faster.
pub struct Buffered<B, W> {
    buffer: B,
    senders: WaitQueue<Party<W>>,
    receivers: WaitQueue<Party<W>>,
}

impl<B: Buffer, W: Copy> Buffered<B, W> {
    /// Creates a channel with this buffer.
    pub fn new(buffer: B) -> Self {
        Self { buffer, senders: WaitQueue::new(0), receivers: WaitQueue::new(0) }
    }

    /// Returns the buffer.
    pub fn buffer(&self) -> &B {
        &self.buffer
    }

    /// Claims the first in line at `side`, if a push or pop found the other side queued.
    #[inline(always)]
    fn next_if(&self, other: Other, side: Side, by: &impl Contender) -> Option<W> {
        match other {
            Other::Runs => None,
            Other::Queued => self.next(side, by),
        }
    }

    /// Takes the lock of the queue at `side`.
    fn lock(&self, side: Side, by: &impl Contender) -> LockedSide<'_, B, W> {
        let queue = match side {
            Side::Send => &self.senders,
            Side::Receive => &self.receivers,
        };
        LockedSide { buffer: &self.buffer, side, queue: queue.lock(by) }
    }
}

impl<B: Buffer, W: Copy> Stored<W> for Buffered<B, W> {
    type Value = B::Value;

    #[inline(always)]
    fn send_ready(&self, by: &impl Contender, value: B::Value) -> Result<Option<W>, B::Value> {
        match self.buffer.push(value) {
            Ok(other) => Ok(self.next_if(other, Side::Receive, by)),
            Err(NotPushed::Unready(value) | NotPushed::Closed(value)) => Err(value),
        }
    }

    #[inline(always)]
    fn receive_ready(&self, by: &impl Contender) -> Option<(B::Value, Option<W>)> {
        let (value, other) = self.buffer.pop()?;
        Some((value, self.next_if(other, Side::Send, by)))
    }

    fn is_ready(&self, side: Side) -> bool {
        match side {
            Side::Send => self.buffer.is_push_ready(),
            Side::Receive => self.buffer.is_pop_ready(),
        }
    }

    fn send(
        &self,
        by: &impl Contender,
        mut value: B::Value,
    ) -> Result<Option<W>, Refused<B::Value>> {
        let mut looks = 0;
        loop {
            value = match self.buffer.push(value) {
                Ok(other) => return Ok(self.next_if(other, Side::Receive, by)),
                Err(NotPushed::Closed(value)) => return Err(Refused::Closed(value)),
                Err(NotPushed::Unready(value)) if self.buffer.is_full() => {
                    return Err(Refused::Full(value));
                }
                Err(NotPushed::Unready(value)) => value,
            };
            pause(by, &mut looks);
        }
    }

    fn receive(&self, by: &impl Contender) -> Result<(B::Value, Option<W>), Nothing> {
        let mut looks = 0;
        loop {
            if let Some(received) = self.receive_ready(by) {
                return Ok(received);
            }
            if let Some(nothing) = self.buffer.nothing() {
                return Err(nothing);
            }
            pause(by, &mut looks);
        }
    }

    unsafe fn enqueue(
        &self,
        side: Side,
        by: &impl Contender,
        node: NonNull<Node<Party<W>>>,
        was_claimed: bool,
    ) -> bool {
        let mut side = self.lock(side, by);
        let waits = side.announce();
        if waits {
            // SAFETY: passed on to the caller.
            unsafe { side.enqueue(node, was_claimed) };
        }
        waits
    }

    unsafe fn leave(
        &self,
        side: Side,
        by: &impl Contender,
        node: NonNull<Node<Party<W>>>,
    ) -> Unlinked {
        // The announcement stays: the next push or pop of the other side finds out.
        // SAFETY: passed on to the caller.
        unsafe { self.lock(side, by).queue.unlink(node) }
    }

    #[cold]
    fn next(&self, side: Side, by: &impl Contender) -> Option<W> {
        self.lock(side, by).claim()
    }

    fn close(&self, _: &impl Contender) -> bool {
        self.buffer.close()
    }

    fn is_closed(&self) -> bool {
        self.buffer.is_closed()
    }

    fn count(&self) -> usize {
        self.buffer.count()
    }
}

/// One side of a channel, locked.
struct LockedSide<'c, B, W> {
    buffer: &'c B,
    side: Side,
    queue: Locked<'c, Party<W>>,
}

impl<B: Buffer, W: Copy> LockedSide<'_, B, W> {
    /// Announces the party that is about to be queued. Returns true if a push or pop will claim it;
    /// otherwise it looks again.
    #[must_use]
    fn announce(&mut self) -> bool {
        if cfg!(weaken = "channel-announce") {
            return true;
        }
        match self.side {
            Side::Send => self.buffer.announce_push(),
            Side::Receive => self.buffer.announce_pop(),
        }
    }

    /// Claims the first in line; takes the announcement back if the queue is empty then.
    fn claim(&mut self) -> Option<W> {
        let claimed = self.queue.claim_first_that(0, |party| party.try_claim());
        if self.queue.is_empty() {
            match self.side {
                Side::Send => self.buffer.retract_push(),
                Side::Receive => self.buffer.retract_pop(),
            }
        }
        claimed.map(|party| party.waiter)
    }

    /// Adds `node`, after the announcement under this lock; as the oldest if the party was claimed
    /// before.
    ///
    /// # Safety
    ///
    /// As for [`Locked::enqueue`].
    unsafe fn enqueue(&mut self, node: NonNull<Node<Party<W>>>, was_claimed: bool) {
        // SAFETY: passed on to the caller.
        unsafe {
            if was_claimed { self.queue.enqueue_first(node) } else { self.queue.enqueue(node) }
        }
    }
}

fn pause(by: &impl Contender, looks: &mut u32) {
    *looks += 1;
    if looks.is_multiple_of(LOOKS) { by.relax() } else { spin_loop() }
}
