//! Sending ends of a channel of many receivers.

use std::fmt;

use bytemuck::Pod;
use daiko_core::robust::{Lane, LaneSender, NotSent, SeenWord};
use daiko_rt::Deadline;

use super::{MpmcChannel, locked};
use crate::atomic::Ordering;
use crate::{ConnectError, Content, SendError};

/// Sending end of a [`MpmcChannel`]; clones share the lane of their process, which is free again
/// where the last of them is dropped.
pub struct MpmcSender<T: ?Sized + 'static> {
    channel: MpmcChannel<T>,
}

/// Reason why an attempt has failed: for good, or until a change.
#[derive(Clone, Copy)]
enum Failed {
    For(SendError),
    Full { lane: usize, seen: SeenWord, left: u32 },
}

impl From<Failed> for SendError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::For(error) => error,
            Failed::Full { .. } => SendError::Full,
        }
    }
}

impl<T: Content + ?Sized> MpmcSender<T> {
    pub(super) fn of(channel: MpmcChannel<T>) -> Result<Self, ConnectError> {
        let mut senders = locked(&channel.local.senders);
        channel.add_end(&mut senders.ends, channel.lanes().iter().map(Lane::sender))?;
        if senders.lane.is_none() {
            let lane = &channel.lanes()[senders.ends.place];
            let Ok(end) = LaneSender::of(lane, channel.slots()) else {
                senders.ends.handles = 0;
                channel.ends().stand_up(
                    channel.segment(),
                    lane.sender(),
                    &channel.ends().receiving,
                );
                return Err(ConnectError::Corrupt);
            };
            senders.lane = Some(end);
            // Release: pairs with the Acquire in `is_deserted`: a receiver that sees it sees the
            // seat taken.
            channel.ends().had_sender.store(1, Ordering::Release);
        }
        drop(senders);
        Ok(MpmcSender { channel })
    }

    /// Sends a copy of `message`, once there is room for it: one copy of a large message, where
    /// [`send`](MpmcSender::send) may make several.
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
    pub fn send_ref(&self, message: &T) -> Result<(), SendError> {
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
        &self,
        message: &T,
        timeout: impl Into<Deadline>,
    ) -> Result<(), SendError> {
        self.send_until(message, || timeout.into())
    }

    /// Sends a copy of `message` if there is room for it, even ahead of waiters.
    ///
    /// # Errors
    ///
    /// If there is none, or no receiver any more.
    ///
    /// # Panics
    ///
    /// If `message` is `[u8]` and has another number of bytes than the channel's messages.
    #[inline]
    pub fn try_send_ref(&self, message: &T) -> Result<(), SendError> {
        match self.attempt(message) {
            Ok(()) => Ok(()),
            Err(failed) => {
                // So that a caller that tries again and again learns of deaths, too.
                self.channel.segment().watch_all();
                Err(failed.into())
            }
        }
    }

    #[inline]
    fn send_until(
        &self,
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
    fn send_slow(&self, message: &T, deadline: Deadline) -> Result<(), SendError> {
        let channel = &self.channel;
        let gate = channel.local.sending.pass_until(deadline);
        let _gate = gate.ok_or(SendError::TimedOut)?;
        let attempt = || match self.attempt(message) {
            Err(Failed::Full { lane, seen, left }) => Err((lane, seen, left)),
            done => Ok(done),
        };
        let has_changed = |&(lane, seen, left): &(usize, SeenWord, u32)| {
            !channel.lanes()[lane].is_full(seen) || channel.ends().left() != left
        };
        match channel.sending().any_process(deadline, attempt, has_changed) {
            Ok(done) => done.map_err(SendError::from),
            Err(_) => Err(SendError::TimedOut),
        }
    }

    #[inline]
    fn attempt(&self, message: &T) -> Result<(), Failed> {
        let channel = &self.channel;
        channel.placed.shape.lanes.check(message);
        let left = channel.ends().left();
        if channel.is_refused() {
            return Err(Failed::For(SendError::Disconnected));
        }
        let mut senders = locked(&channel.local.senders);
        let place = senders.ends.place;
        let end = senders.lane.as_mut().expect("this process has a sender");
        let write = |slot| channel.message(place, slot).write(message.bytes());
        let sent = end.send(&channel.lanes()[place], channel.slots(), write);
        drop(senders);
        // Afterwards: a cut-off page is noticed when it is touched.
        if channel.segment().is_truncated() {
            return Err(Failed::For(SendError::Truncated));
        }
        match sent {
            Ok(()) => {
                channel.segment().ring_behind_store(&channel.ends().receiving, None);
                Ok(())
            }
            Err(NotSent::Full(seen)) => Err(Failed::Full { lane: place, seen, left }),
            // No process of this version closes a lane.
            Err(NotSent::Closed | NotSent::Corrupt) => Err(Failed::For(SendError::Corrupt)),
        }
    }
}

impl<T: Pod> MpmcSender<T> {
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
    pub fn send(&self, message: T) -> Result<(), SendError> {
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
    pub fn send_timeout(&self, message: T, timeout: impl Into<Deadline>) -> Result<(), SendError> {
        self.send_ref_timeout(&message, timeout)
    }

    /// Sends `message` if there is room for it, even ahead of waiters.
    ///
    /// # Errors
    ///
    /// If there is none, or no receiver any more.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), SendError> {
        self.try_send_ref(&message)
    }
}

impl<T: ?Sized + 'static> MpmcSender<T> {
    /// Returns the channel of this end.
    pub fn channel(&self) -> &MpmcChannel<T> {
        &self.channel
    }

    /// Returns true if there is no receiver any more.
    pub fn is_disconnected(&self) -> bool {
        self.channel.segment().watch_all();
        self.channel.is_refused()
    }
}

impl<T: ?Sized + 'static> Clone for MpmcSender<T> {
    fn clone(&self) -> Self {
        locked(&self.channel.local.senders).ends.handles += 1;
        MpmcSender { channel: self.channel.clone() }
    }
}

impl<T: ?Sized + 'static> Drop for MpmcSender<T> {
    fn drop(&mut self) {
        let channel = &self.channel;
        let mut senders = locked(&channel.local.senders);
        senders.ends.handles -= 1;
        if senders.ends.handles == 0 {
            senders.lane = None;
            let seat = channel.lanes()[senders.ends.place].sender();
            channel.ends().stand_up(channel.segment(), seat, &channel.ends().receiving);
        }
    }
}

impl<T: ?Sized + 'static> fmt::Debug for MpmcSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MpmcSender").finish_non_exhaustive()
    }
}
