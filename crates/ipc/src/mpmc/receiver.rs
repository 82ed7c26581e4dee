//! Receiving ends of a channel of many receivers.

use std::fmt;

use bytemuck::Pod;
use daiko_core::doorbell::Listeners;
use daiko_core::robust::{NotReceived, Round, SeenWord};
use daiko_rt::Deadline;

use super::{MpmcChannel, locked};
use crate::atomic::Ordering;
use crate::select::Missing;
use crate::wait::{Membership, give_way};
use crate::{ConnectError, Content, RecvError, Segment};

/// Receiving end of a [`MpmcChannel`]; the process is a receiver until the last of its clones is
/// dropped.
pub struct MpmcReceiver<T: ?Sized + 'static> {
    channel: MpmcChannel<T>,
}

/// Reason why an attempt has failed: for good, or until a change.
enum Failed {
    For(RecvError),
    Empty(EmptyLanes),
}

/// The lanes as an attempt has seen them.
struct EmptyLanes {
    seen: Vec<SeenWord>,
    left: u32,
    /// True if another receiver was faster again and again, so that there may be messages.
    contended: bool,
}

impl EmptyLanes {
    fn have_changed<T: ?Sized + 'static>(&self, channel: &MpmcChannel<T>) -> bool {
        self.contended || channel.has_changed(&self.seen, self.left)
    }
}

/// The outcome of a look at all lanes.
enum Taken {
    /// A message, or an error.
    Done(Result<(), RecvError>),
    Empty,
    /// As `Empty`, but another receiver was faster again and again.
    Contended,
}

impl<T: Content + ?Sized> MpmcReceiver<T> {
    pub(super) fn of(channel: MpmcChannel<T>) -> Result<Self, ConnectError> {
        let mut receivers = locked(&channel.local.receivers);
        channel.add_end(&mut receivers, channel.receivers().iter())?;
        // Release: pairs with the Acquire in `is_refused`: a sender that sees it sees the seat
        // taken.
        channel.ends().had_receiver.store(1, Ordering::Release);
        drop(receivers);
        Ok(MpmcReceiver { channel })
    }

    /// Receives a message into memory of the caller: one copy of a large message, where
    /// [`recv`](MpmcReceiver::recv) may make several.
    ///
    /// # Errors
    ///
    /// If there is none, and no sender any more. The old `message` may be lost, in whichever error.
    ///
    /// # Panics
    ///
    /// If it would have to wait inside [`no_suspend`](daiko_rt::no_suspend), or in an
    /// `agent::Poller`; if `message` is `[u8]` and has another number of bytes than the channel's
    /// messages.
    #[inline]
    pub fn recv_into(&self, message: &mut T) -> Result<(), RecvError> {
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
        &self,
        message: &mut T,
        timeout: impl Into<Deadline>,
    ) -> Result<(), RecvError> {
        self.recv_until(message, || timeout.into())
    }

    /// Receives a message into memory of the caller, if there is one, even ahead of waiters.
    ///
    /// # Errors
    ///
    /// If there is none; and no sender any more.
    ///
    /// # Panics
    ///
    /// If `message` is `[u8]` and has another number of bytes than the channel's messages.
    #[inline]
    pub fn try_recv_into(&self, message: &mut T) -> Result<(), RecvError> {
        if let Taken::Done(received) = self.take(message, |_| ()) {
            return received;
        }
        // So that a caller that tries again and again learns of the senders' deaths, too.
        self.channel.segment().watch_all();
        self.attempt(message).map_err(|failed| match failed {
            Failed::For(error) => error,
            Failed::Empty(_) => RecvError::Empty,
        })
    }

    #[inline]
    fn recv_until(
        &self,
        message: &mut T,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), RecvError> {
        match self.take(message, |_| ()) {
            Taken::Done(received) => received,
            Taken::Empty | Taken::Contended => self.recv_slow(message, deadline()),
        }
    }

    #[cold]
    fn recv_slow(&self, message: &mut T, deadline: Deadline) -> Result<(), RecvError> {
        let channel = &self.channel;
        let gate = channel.local.receiving.pass_until(deadline);
        let _gate = gate.ok_or(RecvError::TimedOut)?;
        let attempt = || match self.attempt(message) {
            Err(Failed::Empty(lanes)) => {
                if lanes.contended {
                    give_way();
                }
                Err(lanes)
            }
            Err(Failed::For(error)) => Ok(Err(error)),
            Ok(()) => Ok(Ok(())),
        };
        let has_changed = |lanes: &EmptyLanes| lanes.have_changed(channel);
        match channel.receiving().any_process(deadline, attempt, has_changed) {
            Ok(received) => received,
            Err(_) => Err(RecvError::TimedOut),
        }
    }

    /// Takes a message as [`take`](Self::take) does; if there is none, returns the reason.
    fn attempt(&self, message: &mut T) -> Result<(), Failed> {
        let left = self.channel.ends().left();
        // Before the look: a sender that is gone by then sends no more.
        let deserted = self.channel.is_deserted();
        let mut seen = vec![None; self.channel.lanes().len()];
        let contended = match self.take(message, |(at, word)| seen[at] = Some(word)) {
            Taken::Done(received) => return received.map_err(Failed::For),
            Taken::Empty if deserted => return Err(Failed::For(RecvError::Disconnected)),
            taken => matches!(taken, Taken::Contended),
        };
        // A lane that was not seen empty was contended.
        let seen = seen.into_iter().flatten().collect();
        Err(Failed::Empty(EmptyLanes { seen, left, contended }))
    }

    /// Takes the next message, if there is one; `empty` is given the empty lanes.
    #[inline]
    fn take(&self, message: &mut T, mut empty: impl FnMut((usize, SeenWord))) -> Taken {
        let (channel, next) = (&self.channel, &self.channel.local.next_lane);
        channel.placed.shape.lanes.check(message);
        let (lanes, slots) = (channel.lanes(), channel.slots());
        let mut round = Round::at(next.load(Ordering::Relaxed));
        let mut contended = false;
        let received = round.find(lanes.len(), |at| {
            let read = |slot| channel.message(at, slot).read(message.bytes_mut());
            match lanes[at].receive_shared(slots, read) {
                Ok(()) => Some(Ok(())),
                Err(NotReceived::Empty(word)) => {
                    empty((at, word));
                    None
                }
                Err(NotReceived::Contended) => {
                    contended = true;
                    None
                }
                // No process of this version closes a lane.
                Err(NotReceived::Closed | NotReceived::Corrupt) => Some(Err(RecvError::Corrupt)),
            }
        });
        // Afterwards: a cut-off page is noticed when it is touched.
        if channel.segment().is_truncated() {
            return Taken::Done(Err(RecvError::Truncated));
        }
        match received {
            Some(received) => {
                next.store(round.next(), Ordering::Relaxed);
                if received.is_ok() {
                    channel.segment().ring(&channel.ends().sending, None);
                }
                Taken::Done(received)
            }
            None if contended => Taken::Contended,
            None => Taken::Empty,
        }
    }
}

/// A message, or the end, that has not come.
struct MissingMessage<T: 'static> {
    channel: MpmcChannel<T>,
    lanes: EmptyLanes,
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
        self.lanes.have_changed(&self.channel) || self.membership.has_changed(self.segment())
    }
}

impl<T: Pod> MpmcReceiver<T> {
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
    pub fn recv(&self) -> Result<T, RecvError> {
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
    pub fn recv_timeout(&self, timeout: impl Into<Deadline>) -> Result<T, RecvError> {
        let mut message = T::zeroed();
        self.recv_into_timeout(&mut message, timeout).map(|()| message)
    }

    /// Receives a message if there is one, even ahead of waiters.
    ///
    /// # Errors
    ///
    /// If there is none; and no sender any more.
    #[inline]
    pub fn try_recv(&self) -> Result<T, RecvError> {
        let mut message = T::zeroed();
        self.try_recv_into(&mut message).map(|()| message)
    }

    /// Returns an iterator over messages, which waits for each, until there is no sender any more.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// Receives a message if there is one, or returns the change to wait for.
    #[doc(hidden)]
    pub fn attempt_once(&self) -> Result<Result<T, RecvError>, Box<dyn Missing>> {
        let mut message = T::zeroed();
        if let Taken::Done(received) = self.take(&mut message, |_| ()) {
            return Ok(received.map(|()| message));
        }
        let membership = Membership::before_attempt(self.channel.segment());
        match self.attempt(&mut message) {
            Ok(()) => Ok(Ok(message)),
            Err(Failed::For(error)) => Ok(Err(error)),
            Err(Failed::Empty(lanes)) => {
                let channel = self.channel.clone();
                Err(Box::new(MissingMessage { channel, lanes, membership }))
            }
        }
    }
}

impl<T: ?Sized + 'static> MpmcReceiver<T> {
    /// Returns the channel of this end.
    pub fn channel(&self) -> &MpmcChannel<T> {
        &self.channel
    }

    /// Returns true if there were senders, and are none any more. Messages may be left.
    pub fn is_disconnected(&self) -> bool {
        self.channel.segment().watch_all();
        self.channel.is_deserted()
    }
}

impl<T: ?Sized + 'static> Clone for MpmcReceiver<T> {
    fn clone(&self) -> Self {
        locked(&self.channel.local.receivers).handles += 1;
        MpmcReceiver { channel: self.channel.clone() }
    }
}

impl<T: ?Sized + 'static> Drop for MpmcReceiver<T> {
    fn drop(&mut self) {
        let channel = &self.channel;
        let mut receivers = locked(&channel.local.receivers);
        receivers.handles -= 1;
        if receivers.handles == 0 {
            let seat = &channel.receivers()[receivers.place];
            channel.ends().stand_up(channel.segment(), seat, &channel.ends().sending);
        }
    }
}

impl<T: ?Sized + 'static> fmt::Debug for MpmcReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MpmcReceiver").finish_non_exhaustive()
    }
}
