//! Sending end of a channel.

use std::fmt;

use bytemuck::Pod;
use daiko_core::robust::{self, Lane, NotSent, SeenWord};

use super::{Channel, ConnectError, Content, SendError};
use crate::atomic::Ordering;
use crate::placed::sit_down;
use daiko_rt::Deadline;

/// Sending end of a [`Channel`]; dropping it frees its place.
///
/// A place belongs to one fiber or thread at a time, and can be handed on.
pub struct Sender<T: ?Sized + 'static> {
    channel: Channel<T>,
    lane: usize,
    end: robust::LaneSender,
}

/// Reason why an attempt has failed: for good, or until a change.
#[derive(Clone, Copy)]
enum Failed {
    For(SendError),
    Full { seen: SeenWord, left: u32 },
}

impl From<Failed> for SendError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::For(error) => error,
            Failed::Full { .. } => SendError::Full,
        }
    }
}

impl<T: Content + ?Sized> Sender<T> {
    pub(super) fn of(channel: Channel<T>) -> Result<Self, ConnectError> {
        let seats = channel.lanes().iter().map(Lane::sender);
        let lane = sit_down(channel.segment(), seats).ok_or(ConnectError::Taken)?;
        let end = robust::LaneSender::of(&channel.lanes()[lane], channel.slots());
        let Ok(end) = end else {
            channel.ends().stand_up(
                channel.segment(),
                channel.lanes()[lane].sender(),
                &channel.ends().receiving,
            );
            return Err(ConnectError::Corrupt);
        };
        // Release: pairs with the Acquire in `is_deserted`: a receiver that sees it sees the seat
        // taken.
        channel.ends().had_sender.store(1, Ordering::Release);
        Ok(Sender { channel, lane, end })
    }

    /// Sends a copy of `message`, once there is room for it: one copy of a large message, where
    /// [`send`](Sender::send) may make several.
    ///
    /// # Errors
    ///
    /// If there is no receiver any more.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](daiko_rt::no_suspend), or in an
    /// `agent::Poller`; if `message` is `[u8]` and has another number of bytes than the channel's
    /// messages.
    #[inline]
    pub fn send_ref(&mut self, message: &T) -> Result<(), SendError> {
        self.send_until(message, || Deadline::NEVER)
    }

    /// Sends as [`send_ref`](Self::send_ref) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or there is no receiver any more.
    ///
    /// # Panics
    ///
    /// As [`send_ref`](Self::send_ref).
    #[inline]
    pub fn send_ref_timeout(
        &mut self,
        message: &T,
        timeout: impl Into<Deadline>,
    ) -> Result<(), SendError> {
        self.send_until(message, || timeout.into())
    }

    /// Sends a copy of `message` if there is room for it.
    ///
    /// # Errors
    ///
    /// If there is none, or no receiver any more.
    ///
    /// # Panics
    ///
    /// If `message` is `[u8]` and has another number of bytes than the channel's messages.
    #[inline]
    pub fn try_send_ref(&mut self, message: &T) -> Result<(), SendError> {
        match self.attempt(message) {
            Ok(()) => Ok(()),
            Err(failed) => {
                // So that a caller that tries again and again learns of the receiver's death, too.
                self.channel.segment().watch_all();
                Err(failed.into())
            }
        }
    }

    #[inline]
    fn send_until(
        &mut self,
        message: &T,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), SendError> {
        match self.attempt(message) {
            Ok(()) => Ok(()),
            Err(Failed::For(error)) => Err(error),
            Err(Failed::Full { .. }) => self.send_slow(message, deadline()),
        }
    }

    #[cold]
    fn send_slow(&mut self, message: &T, deadline: Deadline) -> Result<(), SendError> {
        let (channel, lane) = (self.channel.clone(), self.lane);
        let attempt = || match self.attempt(message) {
            Err(Failed::Full { seen, left }) => Err((seen, left)),
            done => Ok(done),
        };
        let has_changed = |&(seen, left): &(SeenWord, u32)| {
            !channel.lanes()[lane].is_full(seen) || channel.ends().left() != left
        };
        match channel.sending().any_process(deadline, attempt, has_changed) {
            Ok(done) => done.map_err(SendError::from),
            Err(_) => Err(SendError::TimedOut),
        }
    }

    #[inline]
    fn attempt(&mut self, message: &T) -> Result<(), Failed> {
        let channel = &self.channel;
        channel.placed.shape.check(message);
        let left = channel.ends().left();
        if channel.is_refused() {
            return Err(Failed::For(SendError::Disconnected));
        }
        let lane = &channel.lanes()[self.lane];
        let write = |slot| channel.message(self.lane, slot).write(message.bytes());
        let sent = self.end.send(lane, channel.slots(), write);
        // Afterwards: a cut-off page is noticed when it is touched.
        if channel.segment().is_truncated() {
            return Err(Failed::For(SendError::Truncated));
        }
        match sent {
            Ok(()) => {
                channel.segment().ring_behind_store(&channel.ends().receiving, None);
                Ok(())
            }
            Err(NotSent::Full(seen)) => Err(Failed::Full { seen, left }),
            // No receiver of this version closes a lane.
            Err(NotSent::Closed | NotSent::Corrupt) => Err(Failed::For(SendError::Corrupt)),
        }
    }
}

impl<T: Pod> Sender<T> {
    /// Sends `message`, once there is room for it.
    ///
    /// Once sent, the message stays even if this process ends, and is received if a receiver lives
    /// long enough.
    ///
    /// # Errors
    ///
    /// If there is no receiver any more.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](daiko_rt::no_suspend), or in an
    /// `agent::Poller`.
    #[inline]
    pub fn send(&mut self, message: T) -> Result<(), SendError> {
        self.send_ref(&message)
    }

    /// Sends as [`send`](Self::send) does, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// If the time is over, or there is no receiver any more.
    ///
    /// # Panics
    ///
    /// As [`send`](Self::send).
    #[inline]
    pub fn send_timeout(
        &mut self,
        message: T,
        timeout: impl Into<Deadline>,
    ) -> Result<(), SendError> {
        self.send_ref_timeout(&message, timeout)
    }

    /// Sends `message` if there is room for it.
    ///
    /// # Errors
    ///
    /// If there is none, or no receiver any more.
    #[inline]
    pub fn try_send(&mut self, message: T) -> Result<(), SendError> {
        self.try_send_ref(&message)
    }
}

impl<T: ?Sized + 'static> Sender<T> {
    /// Returns the channel of this end.
    pub fn channel(&self) -> &Channel<T> {
        &self.channel
    }

    /// Returns true if there is no receiver any more.
    pub fn is_disconnected(&self) -> bool {
        self.channel.segment().watch_all();
        self.channel.is_refused()
    }
}

impl<T: ?Sized + 'static> Drop for Sender<T> {
    fn drop(&mut self) {
        let channel = &self.channel;
        channel.ends().stand_up(
            channel.segment(),
            channel.lanes()[self.lane].sender(),
            &channel.ends().receiving,
        );
    }
}

impl<T: ?Sized + 'static> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("lane", &self.lane).finish_non_exhaustive()
    }
}
