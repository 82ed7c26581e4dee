//! Messages of plain bytes from one attachment to another.

use super::{LinePair, MOST_TRIES, Seat, SeenWord, Slots};
use crate::atomic::{AtomicU64, Ordering, const_fn, unless_weakened};

/// The ends of a ring of messages from one sender to one receiver. The messages lie in slots, which
/// the caller writes and reads.
///
/// Budget: no RMW. A message costs the sender one store on its line, which the receiver fetches,
/// and the lines of the slot. The sender fetches the receiver's line once for each time that it
/// finds the ring full.
///
/// ```
/// use daiko_core::robust::{Lane, NotReceived, LaneReceiver, LaneSender, Slots};
///
/// let (lane, mut messages, slots) = (Lane::new(), [""; 4], Slots::new(4));
/// let mut sender = LaneSender::of(&lane, slots)?;
/// let mut receiver = LaneReceiver::of(&lane, slots)?;
/// sender.send(&lane, slots, |slot| messages[slot] = "one").unwrap();
/// sender.close(&lane);
///
/// assert_eq!(receiver.receive(&lane, slots, |slot| messages[slot]), Ok("one"));
/// assert_eq!(receiver.receive(&lane, slots, |slot| messages[slot]), Err(NotReceived::Closed));
/// # Ok::<(), daiko_core::robust::Corrupt>(())
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct Lane {
    sends: LinePair<Sends>,
    receives: LinePair<Receives>,
}

#[repr(C)]
#[derive(Debug)]
struct Sends {
    /// A [`Tail`]. Stored by the attachment that has the seat beside it; the receiver reads it.
    tail: AtomicU64,
    /// A flag: not 0 if the receiver has closed. Stored by the receiver, once; beside the tail, as
    /// the sender reads it at each send.
    refused: AtomicU64,
    seat: Seat,
}

#[repr(C)]
#[derive(Debug)]
struct Receives {
    /// Number of messages received. Stored by the attachment that has the seat beside it, or raised
    /// by any of several receivers; the sender reads it.
    head: AtomicU64,
    seat: Seat,
}

/// The number of messages sent, and whether there will be more.
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

    /// Returns the tail after one more message.
    const fn next(self) -> Tail {
        Tail(self.0.wrapping_add(2))
    }

    const fn closed(self) -> Tail {
        Tail(self.0 | Self::CLOSED)
    }
}

/// A peer has written an impossible value: the ends are further apart than there are slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a peer has written invalid ends of a lane")
    }
}

impl std::error::Error for Corrupt {}

/// The reason for which nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// All slots are taken: wait while [`Lane::is_full`] says so.
    Full(SeenWord),
    /// One of both sides has closed the lane.
    Closed,
    /// The lane is [`Corrupt`].
    Corrupt,
}

/// The reason for which nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReceived {
    /// No message was sent: wait while [`Lane::is_empty`] says so. If the sender's seat is free or
    /// its holder is dead, and the lane is empty after that was seen, only a later sender can send
    /// more.
    Empty(SeenWord),
    /// All messages have been received, and the sender has closed the lane.
    Closed,
    /// Another receiver was faster at each of many tries: only of
    /// [`receive_shared`](Lane::receive_shared). Another try is worth while.
    Contended,
    /// The lane is [`Corrupt`].
    Corrupt,
}

impl Lane {
    const_fn! {
        /// Creates an empty lane, open on both sides.
        pub const fn new() -> Self {
            Self {
                sends: LinePair(Sends {
                    tail: AtomicU64::new(0),
                    refused: AtomicU64::new(0),
                    seat: Seat::new(),
                }),
                receives: LinePair(Receives { head: AtomicU64::new(0), seat: Seat::new() }),
            }
        }
    }

    /// Returns the seat of the sender.
    pub fn sender(&self) -> &Seat {
        &self.sends.0.seat
    }

    /// Returns the seat of the receiver.
    pub fn receiver(&self) -> &Seat {
        &self.receives.0.seat
    }

    /// Returns true if the lane is still as full as it was when [`NotSent::Full`] said so.
    #[inline]
    pub fn is_full(&self, seen: SeenWord) -> bool {
        self.receives.0.head.load(Ordering::Relaxed) == seen.0 && !self.is_refused()
    }

    /// Returns true if the lane is still as empty as it was when [`NotReceived::Empty`] said so.
    #[inline]
    pub fn is_empty(&self, seen: SeenWord) -> bool {
        self.tail(Ordering::Relaxed).0 == seen.0
    }

    /// Receives the first of the messages, for one of several receivers, none of which has the
    /// seat: `read` copies it from the slot of the given number, once for each try. The copy counts
    /// only if no other receiver was faster. The caller rings for the sender.
    ///
    /// The sender, or a corrupt peer, may be writing the slot, so `read` allows for a race, and the
    /// message is checked in the copy.
    ///
    /// Budget: one RMW for each message, on a line that the sender fetches as for one receiver.
    ///
    /// ```
    /// use daiko_core::robust::{Lane, LaneSender, NotReceived, Slots};
    ///
    /// let (lane, mut messages, slots) = (Lane::new(), [""; 4], Slots::new(4));
    /// LaneSender::of(&lane, slots)?.send(&lane, slots, |slot| messages[slot] = "one").unwrap();
    /// assert_eq!(lane.receive_shared(slots, |slot| messages[slot]), Ok("one"));
    /// let empty = lane.receive_shared(slots, |slot| messages[slot]);
    /// assert!(matches!(empty, Err(NotReceived::Empty(_))));
    /// # Ok::<(), daiko_core::robust::Corrupt>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotReceived`] names the reason.
    #[inline]
    pub fn receive_shared<R>(
        &self,
        slots: Slots,
        mut read: impl FnMut(usize) -> R,
    ) -> Result<R, NotReceived> {
        // Acquire: pairs with the Release in `take`: the tail is at least as far.
        let load = || self.receives.0.head.load(Ordering::Acquire);
        let mut head = load();
        for _ in 0..MOST_TRIES {
            // Acquire: pairs with the Release in `set_tail`.
            let tail = self.tail(Ordering::Acquire);
            match between(head, tail, slots) {
                Ok(0) if tail.is_closed() => return Err(NotReceived::Closed),
                Ok(0) => return Err(NotReceived::Empty(SeenWord(tail.0))),
                Ok(_) if cfg!(weaken = "robust-lane-take") => {
                    if self.take(head).is_ok() {
                        return Ok(read(slots.slot(head)));
                    }
                }
                Ok(_) => {
                    let message = read(slots.slot(head));
                    if self.take(head).is_ok() {
                        return Ok(message);
                    }
                }
                // Unless other receivers have made room for the messages beyond.
                Err(Corrupt) if load() == head => return Err(NotReceived::Corrupt),
                Err(Corrupt) => {}
            }
            head = load();
        }
        Err(NotReceived::Contended)
    }

    /// Takes the message number `head` if it is the first one still: then the slot was not written
    /// since that was seen.
    fn take(&self, head: u64) -> Result<u64, u64> {
        // Release: pairs with the Acquire in `LaneSender::look`, and in `receive_shared`.
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        self.receives.0.head.compare_exchange(head, head.wrapping_add(1), release, relaxed)
    }

    /// Resets a lane that a peer has spoilt. The caller has both seats.
    pub fn reset(&self) {
        // Relaxed: the next holders of the seats see it through their seats.
        self.sends.0.tail.store(0, Ordering::Relaxed);
        self.receives.0.head.store(0, Ordering::Relaxed);
        self.sends.0.refused.store(0, Ordering::Relaxed);
    }

    fn tail(&self, ordering: Ordering) -> Tail {
        Tail(self.sends.0.tail.load(ordering))
    }

    fn set_tail(&self, tail: Tail) {
        // Release: pairs with the Acquire in `LaneReceiver::look`.
        let release = unless_weakened!("robust-lane-send", Ordering::Release);
        self.sends.0.tail.store(tail.0, release);
    }

    fn is_refused(&self) -> bool {
        // Relaxed: nothing is published with it.
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

/// Returns the number of messages between the ends, if it is possible.
fn between(head: u64, tail: Tail, slots: Slots) -> Result<u64, Corrupt> {
    let messages = tail.count().wrapping_sub(head);
    if messages <= slots.count() { Ok(messages) } else { Err(Corrupt) }
}

/// The sender's private copy of the state of a lane.
#[derive(Debug)]
pub struct LaneSender {
    tail: Tail,
    /// The last known count of received messages.
    head: u64,
}

impl LaneSender {
    /// Continues behind the messages of all earlier senders. For the attachment that has the
    /// [sender's seat](Lane::sender).
    ///
    /// # Errors
    ///
    /// If a peer has spoilt the lane.
    pub fn of(lane: &Lane, slots: Slots) -> Result<Self, Corrupt> {
        // Relaxed: the seat orders the messages of earlier senders.
        let mut sender = Self { tail: lane.tail(Ordering::Relaxed), head: 0 };
        sender.look(lane, slots)?;
        Ok(sender)
    }

    /// Looks at the receiver's count, and returns the number of messages that it has left.
    fn look(&mut self, lane: &Lane, slots: Slots) -> Result<u64, Corrupt> {
        // Acquire: pairs with the Release in `LaneReceiver::commit`; the receiver has read the
        // slots that are overwritten.
        self.head = lane.receives.0.head.load(Ordering::Acquire);
        between(self.head, self.tail, slots)
    }

    /// Sends the message that `write` writes into the slot of the given number. The caller rings
    /// for the receiver.
    ///
    /// A corrupt peer may be reading or writing the slot.
    ///
    /// # Errors
    ///
    /// [`NotSent`] names the reason; `write` is not called then.
    #[inline]
    pub fn send(
        &mut self,
        lane: &Lane,
        slots: Slots,
        write: impl FnOnce(usize),
    ) -> Result<(), NotSent> {
        if self.tail.is_closed() || lane.is_refused() {
            return Err(NotSent::Closed);
        }
        if self.tail.count().wrapping_sub(self.head) >= slots.count() {
            match self.look(lane, slots) {
                Err(Corrupt) => return Err(NotSent::Corrupt),
                Ok(messages) if messages == slots.count() => {
                    return Err(NotSent::Full(SeenWord(self.head)));
                }
                Ok(_) => {}
            }
        }
        write(slots.slot(self.tail.count()));
        self.tail = self.tail.next();
        lane.set_tail(self.tail);
        Ok(())
    }

    /// Closes the lane behind the last message. The caller rings for the receiver.
    pub fn close(&mut self, lane: &Lane) {
        self.tail = self.tail.closed();
        lane.set_tail(self.tail);
    }
}

/// The receiver's private copy of the state of a lane.
#[derive(Debug)]
pub struct LaneReceiver {
    head: u64,
    /// The last known tail.
    tail: Tail,
}

impl LaneReceiver {
    /// Continues with the first message that has not been received. For the attachment that has the
    /// [receiver's seat](Lane::receiver).
    ///
    /// # Errors
    ///
    /// If a peer has spoilt the lane.
    pub fn of(lane: &Lane, slots: Slots) -> Result<Self, Corrupt> {
        // Relaxed: the seat orders the work of earlier receivers.
        let head = lane.receives.0.head.load(Ordering::Relaxed);
        let mut receiver = Self { head, tail: Tail(0) };
        receiver.look(lane, slots)?;
        Ok(receiver)
    }

    /// Looks at the sender's count, and returns the number of messages.
    fn look(&mut self, lane: &Lane, slots: Slots) -> Result<u64, Corrupt> {
        // Acquire: pairs with the Release in `set_tail`.
        let tail = lane.tail(Ordering::Acquire);
        let messages = between(self.head, tail, slots)?;
        self.tail = tail;
        Ok(messages)
    }

    /// Receives the first of the messages, which `read` copies from the slot of the given number.
    /// The caller rings for the sender.
    ///
    /// A corrupt peer may be writing the slot, so the message is checked in the copy.
    ///
    /// # Errors
    ///
    /// [`NotReceived`] names the reason; `read` is not called then.
    #[inline]
    pub fn receive<R>(
        &mut self,
        lane: &Lane,
        slots: Slots,
        read: impl FnOnce(usize) -> R,
    ) -> Result<R, NotReceived> {
        if self.head == self.tail.count() {
            match self.look(lane, slots) {
                Err(Corrupt) => return Err(NotReceived::Corrupt),
                Ok(0) if self.tail.is_closed() => return Err(NotReceived::Closed),
                Ok(0) => return Err(NotReceived::Empty(SeenWord(self.tail.0))),
                Ok(_) => {}
            }
        }
        let at = self.head;
        self.head = at.wrapping_add(1);
        if cfg!(weaken = "robust-lane-receive") {
            self.commit(lane);
        }
        let message = read(slots.slot(at));
        self.commit(lane);
        Ok(message)
    }

    fn commit(&self, lane: &Lane) {
        // Release: pairs with the Acquire in `LaneSender::look`.
        lane.receives.0.head.store(self.head, Ordering::Release);
    }

    /// Closes the receiving side: messages sent from now on are refused. The caller rings for the
    /// sender.
    pub fn close(&mut self, lane: &Lane) {
        // Relaxed: nothing is published with it.
        lane.sends.0.refused.store(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl Lane {
    /// Stores any ends, as a peer may.
    pub(super) fn spoil(&self, tail: u64, head: u64) {
        self.sends.0.tail.store(tail, Ordering::Relaxed);
        self.receives.0.head.store(head, Ordering::Relaxed);
    }
}
