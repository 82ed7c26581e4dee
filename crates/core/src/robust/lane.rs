//! Messages of plain bytes from one attachment to another.

use super::{Line, Seat, Seen, Slots};
use crate::sync::{AtomicU64, Ordering, const_fn, unless_weakened};

/// The ends of a ring of messages from one sender to one receiver. The messages lie in [`Slots`].
///
/// Budget: no RMW. A message costs the sender one store on his line, which the receiver fetches, and the lines of the
/// slot; the receiver's line is fetched by the sender once for each time that he finds the ring full.
///
/// ```
/// use daiko_core::robust::{Lane, NotReceived, Receiver, Sender, Slots};
/// use std::sync::atomic::AtomicU64;
///
/// let (lane, words) = (Lane::new(), [const { AtomicU64::new(0) }; 8]);
/// let slots = Slots::new(&words, 2);
/// let mut sender = Sender::of(&lane, slots)?;
/// let mut receiver = Receiver::of(&lane, slots)?;
/// sender.send(&lane, slots, b"up to 16 bytes").unwrap();
/// sender.close(&lane);
///
/// let mut message = [0; 14];
/// assert_eq!(receiver.receive(&lane, slots, &mut message), Ok(()));
/// assert_eq!(&message, b"up to 16 bytes");
/// assert_eq!(receiver.receive(&lane, slots, &mut message), Err(NotReceived::Closed));
/// # Ok::<(), daiko_core::robust::Corrupt>(())
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct Lane {
    sends: Line<Sends>,
    receives: Line<Receives>,
}

#[repr(C)]
#[derive(Debug)]
struct Sends {
    /// A [`Tail`]. Stored by who has the seat beside it; the receiver reads it.
    tail: AtomicU64,
    /// Not 0 if nobody receives any more. Stored by the receiver, once; beside the tail, as the sender reads it each time.
    refused: AtomicU64,
    seat: Seat,
}

#[repr(C)]
#[derive(Debug)]
struct Receives {
    /// So many messages were received. Stored by who has the seat beside it; the sender reads it.
    head: AtomicU64,
    seat: Seat,
}

/// How many messages were sent, and whether there will be more.
///
/// ```text
/// 63        1    0
/// | messages | CLOSED |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tail(u64);

impl Tail {
    const CLOSED: u64 = 1;

    const fn count(self) -> u64 {
        self.0 >> 1
    }

    const fn is_closed(self) -> bool {
        self.0 & Self::CLOSED != 0
    }

    /// With one message more.
    const fn next(self) -> Tail {
        Tail(self.0.wrapping_add(2))
    }

    const fn closed(self) -> Tail {
        Tail(self.0 | Self::CLOSED)
    }
}

/// A peer has written what no peer does: the ends are further apart than there are slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a peer has written to the ends of a lane what no peer does")
    }
}

impl std::error::Error for Corrupt {}

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// All slots are taken: to be waited for while [`Lane::is_full`] says so.
    Full(Seen),
    /// One of both sides has closed the lane.
    Closed,
    /// See [`Corrupt`].
    Corrupt,
}

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReceived {
    /// Nothing was sent: to be waited for while [`Lane::is_empty`] says so. If whoever has the sender's seat is
    /// dead, or nobody has it, and after that it is empty still, nothing will come but from his heir.
    Empty(Seen),
    /// All that was sent has been received, and the sender has closed the lane.
    Closed,
    /// See [`Corrupt`].
    Corrupt,
}

impl Lane {
    const_fn! {
        /// Empty, and open on both sides.
        pub const fn new() -> Self {
            Self {
                sends: Line(Sends {
                    tail: AtomicU64::new(0),
                    refused: AtomicU64::new(0),
                    seat: Seat::new(),
                }),
                receives: Line(Receives { head: AtomicU64::new(0), seat: Seat::new() }),
            }
        }
    }

    /// Who sends.
    pub fn sender(&self) -> &Seat {
        &self.sends.0.seat
    }

    /// Who receives.
    pub fn receiver(&self) -> &Seat {
        &self.receives.0.seat
    }

    /// Whether it still is as full as it was when [`NotSent::Full`] said so.
    #[inline]
    pub fn is_full(&self, seen: Seen) -> bool {
        self.receives.0.head.load(Ordering::Relaxed) == seen.0 && !self.is_refused()
    }

    /// Whether it still is as empty as it was when [`NotReceived::Empty`] said so.
    #[inline]
    pub fn is_empty(&self, seen: Seen) -> bool {
        self.tail(Ordering::Relaxed).0 == seen.0
    }

    /// Makes a lane as new, for who has both seats: after a peer has spoilt it.
    pub fn reset(&self) {
        // Relaxed: who comes next sees it by his seat.
        self.sends.0.tail.store(0, Ordering::Relaxed);
        self.receives.0.head.store(0, Ordering::Relaxed);
        self.sends.0.refused.store(0, Ordering::Relaxed);
    }

    fn tail(&self, ordering: Ordering) -> Tail {
        Tail(self.sends.0.tail.load(ordering))
    }

    fn set_tail(&self, tail: Tail) {
        // Release: pairs with the Acquire in `Receiver::look`.
        let release = unless_weakened!("robust-lane-send", Ordering::Release);
        self.sends.0.tail.store(tail.0, release);
    }

    fn is_refused(&self) -> bool {
        // Relaxed: nothing comes with it.
        self.sends.0.refused.load(Ordering::Relaxed) != 0
    }
}

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Lane>() == 256);

impl Default for Lane {
    fn default() -> Self {
        Self::new()
    }
}

/// How many messages lie between the ends, if so many can.
fn between(head: u64, tail: Tail, slots: Slots<'_>) -> Result<u64, Corrupt> {
    let messages = tail.count().wrapping_sub(head);
    if messages <= slots.count() { Ok(messages) } else { Err(Corrupt) }
}

/// What the sender knows of a lane; nobody else's.
#[derive(Debug)]
pub struct Sender {
    tail: Tail,
    /// Where the receiver was last seen.
    head: u64,
}

impl Sender {
    /// For who has the [sender's seat](Lane::sender): goes on behind what was sent before, by whomever.
    ///
    /// # Errors
    ///
    /// If a peer has spoilt the lane.
    pub fn of(lane: &Lane, slots: Slots<'_>) -> Result<Self, Corrupt> {
        // Relaxed: what those before have sent is known by the seat.
        let mut sender = Self { tail: lane.tail(Ordering::Relaxed), head: 0 };
        sender.look(lane, slots)?;
        Ok(sender)
    }

    /// Looks where the receiver is: how many messages he has left.
    fn look(&mut self, lane: &Lane, slots: Slots<'_>) -> Result<u64, Corrupt> {
        // Acquire: he has read what is overwritten: pairs with the Release in `receive`.
        self.head = lane.receives.0.head.load(Ordering::Acquire);
        between(self.head, self.tail, slots)
    }

    /// Sends a message. The caller rings for the receiver.
    ///
    /// # Errors
    ///
    /// [`NotSent`] says why not.
    ///
    /// # Panics
    ///
    /// If it is longer than a slot.
    #[inline]
    pub fn send(&mut self, lane: &Lane, slots: Slots<'_>, message: &[u8]) -> Result<(), NotSent> {
        if self.tail.is_closed() || lane.is_refused() {
            return Err(NotSent::Closed);
        }
        if self.tail.count().wrapping_sub(self.head) >= slots.count() {
            match self.look(lane, slots) {
                Err(Corrupt) => return Err(NotSent::Corrupt),
                Ok(messages) if messages == slots.count() => {
                    return Err(NotSent::Full(Seen(self.head)));
                }
                Ok(_) => {}
            }
        }
        slots.write(self.tail.count(), message);
        self.tail = self.tail.next();
        lane.set_tail(self.tail);
        Ok(())
    }

    /// Says that this was all. The caller rings for the receiver.
    pub fn close(&mut self, lane: &Lane) {
        self.tail = self.tail.closed();
        lane.set_tail(self.tail);
    }
}

/// What the receiver knows of a lane; nobody else's.
#[derive(Debug)]
pub struct Receiver {
    head: u64,
    /// Where the sender was last seen.
    tail: Tail,
}

impl Receiver {
    /// For who has the [receiver's seat](Lane::receiver): goes on with the first message that nobody has received.
    ///
    /// # Errors
    ///
    /// If a peer has spoilt the lane.
    pub fn of(lane: &Lane, slots: Slots<'_>) -> Result<Self, Corrupt> {
        // Relaxed: what those before have received is known by the seat.
        let head = lane.receives.0.head.load(Ordering::Relaxed);
        let mut receiver = Self { head, tail: Tail(0) };
        receiver.look(lane, slots)?;
        Ok(receiver)
    }

    /// Looks where the sender is: how many messages there are.
    fn look(&mut self, lane: &Lane, slots: Slots<'_>) -> Result<u64, Corrupt> {
        // Acquire: pairs with the Release in `set_tail`.
        let tail = lane.tail(Ordering::Acquire);
        let messages = between(self.head, tail, slots)?;
        self.tail = tail;
        Ok(messages)
    }

    /// Receives the first of the messages: copies the beginning of its slot, so that no peer changes
    /// what the caller then looks at. The caller rings for the sender.
    ///
    /// # Errors
    ///
    /// [`NotReceived`] says why not.
    ///
    /// # Panics
    ///
    /// If `into` is longer than a slot.
    #[inline]
    pub fn receive(
        &mut self,
        lane: &Lane,
        slots: Slots<'_>,
        into: &mut [u8],
    ) -> Result<(), NotReceived> {
        if self.head == self.tail.count() {
            match self.look(lane, slots) {
                Err(Corrupt) => return Err(NotReceived::Corrupt),
                Ok(0) if self.tail.is_closed() => return Err(NotReceived::Closed),
                Ok(0) => return Err(NotReceived::Empty(Seen(self.tail.0))),
                Ok(_) => {}
            }
        }
        let at = self.head;
        self.head = at.wrapping_add(1);
        if cfg!(weaken = "robust-lane-receive") {
            self.commit(lane);
        }
        slots.read(at, into);
        self.commit(lane);
        Ok(())
    }

    fn commit(&self, lane: &Lane) {
        // Release: pairs with the Acquire in `Sender::look`.
        lane.receives.0.head.store(self.head, Ordering::Release);
    }

    /// Says that nothing is received any more: what is sent from now on is refused. The caller rings for the sender.
    pub fn close(&mut self, lane: &Lane) {
        // Relaxed: nothing comes with it.
        lane.sends.0.refused.store(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
impl Lane {
    /// As a peer may leave it.
    pub(super) fn spoil(&self, tail: u64, head: u64) {
        self.sends.0.tail.store(tail, Ordering::Relaxed);
        self.receives.0.head.store(head, Ordering::Relaxed);
    }
}
