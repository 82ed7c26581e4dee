//! Receiving end of a channel.

use std::fmt;

use bytemuck::Pod;
use daiko_core::doorbell::Listeners;
use daiko_core::robust::{self, NotReceived, Round, SeenWord};

use super::{Channel, ConnectError, Content, RecvError};
use crate::Segment;
use crate::atomic::Ordering;
use crate::placed::sit_down;
use crate::select::Missing;
use crate::wait::Membership;
use daiko_rt::Deadline;

/// Receiving end of a [`Channel`]; dropping it frees its place.
///
/// The place belongs to one fiber or thread at a time, and can be handed on.
pub struct Receiver<T: ?Sized + 'static> {
    channel: Channel<T>,
    ends: Vec<robust::LaneReceiver>,
    round: Round,
    /// State of each lane when it was last found empty.
    seen: Vec<Option<SeenWord>>,
}

/// Reason why an attempt has failed: for good, or until a change.
enum Failed {
    For(RecvError),
    Empty { seen: Vec<Option<SeenWord>>, left: u32 },
}

impl<T: Content + ?Sized> Receiver<T> {
    pub(super) fn of(channel: Channel<T>) -> Result<Self, ConnectError> {
        let words = channel.words();
        if sit_down(channel.segment(), [&words.receiver].into_iter()).is_none() {
            return Err(ConnectError::Taken);
        }
        let lanes = channel.lanes().iter();
        let ends = lanes.map(|lane| robust::LaneReceiver::of(lane, channel.slots()));
        let Ok(ends) = ends.collect::<Result<Vec<_>, _>>() else {
            channel.ends().stand_up(channel.segment(), &words.receiver, &words.ends.sending);
            return Err(ConnectError::Corrupt);
        };
        // Release: pairs with the Acquire in `is_refused`: a sender that sees it sees the seat
        // taken.
        words.ends.had_receiver.store(1, Ordering::Release);
        let seen = vec![None; ends.len()];
        Ok(Receiver { channel, ends, round: Round::default(), seen })
    }

    /// Receives a message into memory of the caller: one copy of a large message, where
    /// [`recv`](Receiver::recv) may make several.
    ///
    /// # Errors
    ///
    /// If there is none, and no sender any more. The old `message` is lost if the error is
    /// [`RecvError::Corrupt`] or [`RecvError::Truncated`].
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](daiko_rt::no_suspend), or in an
    /// `agent::Poller`; if `message` is `[u8]` and has another number of bytes than the channel's
    /// messages.
    ///
    /// # Examples
    ///
    /// ```
    /// use daiko_ipc::{Channel, Segment};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let segment = Segment::anonymous(1 << 20)?;
    /// let channel: Channel<[u64; 512]> = Channel::create(&segment, "pages", Channel::options())?;
    /// let (mut sender, mut receiver) = (channel.sender()?, channel.receiver()?);
    /// sender.send_ref(&[7; 512])?;
    /// let mut page = [0; 512];
    /// receiver.recv_into(&mut page)?;
    /// assert_eq!(page, [7; 512]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn recv_into(&mut self, message: &mut T) -> Result<(), RecvError> {
        self.recv_until(message, || Deadline::NEVER)
    }

    /// Receives as [`recv_into`](Self::recv_into) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or there is no message and no sender any more.
    ///
    /// # Panics
    ///
    /// As [`recv_into`](Self::recv_into).
    #[inline]
    pub fn recv_into_timeout(
        &mut self,
        message: &mut T,
        timeout: impl Into<Deadline>,
    ) -> Result<(), RecvError> {
        self.recv_until(message, || timeout.into())
    }

    /// Receives a message into memory of the caller, if there is one.
    ///
    /// # Errors
    ///
    /// If there is none; and no sender any more.
    ///
    /// # Panics
    ///
    /// If `message` is `[u8]` and has another number of bytes than the channel's messages.
    #[inline]
    pub fn try_recv_into(&mut self, message: &mut T) -> Result<(), RecvError> {
        if let Some(received) = self.take(message) {
            return received;
        }
        // So that a caller that tries again and again learns of the senders' deaths, too.
        self.channel.segment().watch_all();
        self.attempt(message).map_err(|failed| match failed {
            Failed::For(error) => error,
            Failed::Empty { .. } => RecvError::Empty,
        })
    }

    #[inline]
    fn recv_until(
        &mut self,
        message: &mut T,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), RecvError> {
        match self.take(message) {
            Some(received) => received,
            None => self.recv_slow(message, deadline()),
        }
    }

    #[cold]
    fn recv_slow(&mut self, message: &mut T, deadline: Deadline) -> Result<(), RecvError> {
        let channel = self.channel.clone();
        let attempt = || match self.attempt(message) {
            Err(Failed::Empty { seen, left }) => Err((seen, left)),
            Err(Failed::For(error)) => Ok(Err(error)),
            Ok(()) => Ok(Ok(())),
        };
        let has_changed =
            |(seen, left): &(Vec<Option<SeenWord>>, u32)| channel.has_changed(seen, *left);
        let received = channel.receiving().any_process(deadline, attempt, has_changed);
        received.unwrap_or(Err(RecvError::TimedOut))
    }

    /// Takes a message as [`take`](Self::take) does; if there is none, returns the reason.
    fn attempt(&mut self, message: &mut T) -> Result<(), Failed> {
        let left = self.channel.ends().left();
        // Before the look: a sender that is gone by then sends no more.
        let deserted = self.channel.is_deserted();
        match self.take(message) {
            Some(received) => received.map_err(Failed::For),
            None if deserted => Err(Failed::For(RecvError::Disconnected)),
            None => Err(Failed::Empty { seen: self.seen.clone(), left }),
        }
    }

    /// Takes the next message, if there is one.
    #[inline]
    fn take(&mut self, message: &mut T) -> Option<Result<(), RecvError>> {
        let Receiver { channel, ends, round, seen } = self;
        channel.placed.shape.check(message);
        let lanes = channel.lanes();
        let received = round.find(lanes.len(), |at| {
            let read = |slot| channel.message(at, slot).read(message.bytes_mut());
            match ends[at].receive(&lanes[at], channel.slots(), read) {
                Ok(()) => Some(Ok(())),
                Err(NotReceived::Empty(word)) => {
                    seen[at] = Some(word);
                    None
                }
                // No sender of this version closes a lane, and the receiver has no rivals.
                Err(NotReceived::Closed | NotReceived::Contended | NotReceived::Corrupt) => {
                    Some(Err(RecvError::Corrupt))
                }
            }
        });
        // Afterwards: a cut-off page is noticed when it is touched.
        if channel.segment().is_truncated() {
            return Some(Err(RecvError::Truncated));
        }
        let received = received?;
        if received.is_ok() {
            channel.segment().ring_behind_store(&channel.ends().sending, None);
        }
        Some(received)
    }
}

/// A message, or the end, that has not come.
struct MissingMessage<T: 'static> {
    channel: Channel<T>,
    seen: Vec<Option<SeenWord>>,
    left: u32,
    membership: Membership,
}

impl<T: Pod> Missing for MissingMessage<T> {
    fn segment(&self) -> &Segment {
        self.channel.segment()
    }

    fn listeners(&self) -> &Listeners {
        self.channel.receiving().listeners
    }

    fn is_due(&self) -> bool {
        self.channel.has_changed(&self.seen, self.left)
            || self.membership.has_changed(self.segment())
    }
}

impl<T: Pod> Receiver<T> {
    /// Receives a message, once there is one.
    ///
    /// # Errors
    ///
    /// If there is none, and no sender any more.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](daiko_rt::no_suspend), or in an
    /// `agent::Poller`.
    #[inline]
    pub fn recv(&mut self) -> Result<T, RecvError> {
        let mut message = T::zeroed();
        self.recv_into(&mut message).map(|()| message)
    }

    /// Receives as [`recv`](Self::recv) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or there is no message and no sender any more.
    ///
    /// # Panics
    ///
    /// As [`recv`](Self::recv).
    #[inline]
    pub fn recv_timeout(&mut self, timeout: impl Into<Deadline>) -> Result<T, RecvError> {
        let mut message = T::zeroed();
        self.recv_into_timeout(&mut message, timeout).map(|()| message)
    }

    /// Receives a message if there is one.
    ///
    /// # Errors
    ///
    /// If there is none; and no sender any more.
    #[inline]
    pub fn try_recv(&mut self) -> Result<T, RecvError> {
        let mut message = T::zeroed();
        self.try_recv_into(&mut message).map(|()| message)
    }

    /// Returns an iterator over the messages, which waits for each, until there is no sender any
    /// more.
    pub fn iter(&mut self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// Receives a message if there is one, or returns the change to wait for.
    #[doc(hidden)]
    pub fn attempt_once(&mut self) -> Result<Result<T, RecvError>, Box<dyn Missing>> {
        let mut message = T::zeroed();
        if let Some(received) = self.take(&mut message) {
            return Ok(received.map(|()| message));
        }
        let membership = Membership::before_attempt(self.channel.segment());
        match self.attempt(&mut message) {
            Ok(()) => Ok(Ok(message)),
            Err(Failed::For(error)) => Ok(Err(error)),
            Err(Failed::Empty { seen, left }) => {
                let channel = self.channel.clone();
                Err(Box::new(MissingMessage { channel, seen, left, membership }))
            }
        }
    }
}

impl<T: ?Sized + 'static> Receiver<T> {
    /// Returns the channel of this end.
    pub fn channel(&self) -> &Channel<T> {
        &self.channel
    }

    /// Returns true if there were senders, and are none any more. Messages may be left.
    pub fn is_disconnected(&self) -> bool {
        self.channel.segment().watch_all();
        self.channel.is_deserted()
    }
}

impl<T: ?Sized + 'static> Drop for Receiver<T> {
    fn drop(&mut self) {
        let words = self.channel.words();
        self.channel.ends().stand_up(self.channel.segment(), &words.receiver, &words.ends.sending);
    }
}

impl<T: ?Sized + 'static> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("lanes", &self.ends.len()).finish_non_exhaustive()
    }
}

/// Iterator over the messages of a [`Receiver`], until there is no sender any more.
#[derive(Debug)]
pub struct Iter<'r, T: 'static> {
    receiver: &'r mut Receiver<T>,
}

impl<T: Pod> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}
