//! Errors of sends and receives on channels.

use std::fmt;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// Reason why a message was not sent in time; it contains the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The time is over.
    Timeout(T),
    /// The channel has no receiver any more.
    Disconnected(T),
}

impl<T> SendTimeoutError<T> {
    /// Returns the message.
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(message) | SendTimeoutError::Disconnected(message) => message,
        }
    }
}

impl<T> From<SendError<T>> for SendTimeoutError<T> {
    fn from(error: SendError<T>) -> Self {
        SendTimeoutError::Disconnected(error.0)
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "the message was not sent in time",
            SendTimeoutError::Disconnected(_) => "sending on a channel without receivers",
        })
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "Timeout(..)",
            SendTimeoutError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> std::error::Error for SendTimeoutError<T> {}
