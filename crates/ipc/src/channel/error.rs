//! Reasons why a message was not sent, or none received. Each message is one line that names the
//! remedy.

use std::fmt;

/// Reason why no end of a channel is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectError {
    /// All ends of that kind belong to live processes, or to this one.
    Taken,
    /// The channel holds a value that no program of this version writes.
    Corrupt,
}

/// Reason why a message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The channel has no room now.
    Full,
    /// The channel had no room in time.
    TimedOut,
    /// The channel has no receiver any more: it has been dropped, or has died.
    Disconnected,
    /// The segment's file was cut short.
    Truncated,
    /// The channel holds a value that no program of this version writes.
    Corrupt,
}

/// Reason why no message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// The channel has no message now.
    Empty,
    /// No message came in time.
    TimedOut,
    /// The channel has no message, and no sender any more: all have been dropped, or have died.
    Disconnected,
    /// The segment's file was cut short.
    Truncated,
    /// The channel holds a value that no program of this version writes.
    Corrupt,
}

const TRUNCATED: &str =
    "the segment's file was cut short; end all its users, remove it and create it anew";
const CORRUPT: &str = "the channel was changed by a program that does not keep to the protocol; end all users of the \
                       segment and create it anew";

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConnectError::Taken => {
                "the ends of the channel are in use; end a process that has one, or create it for more senders"
            }
            ConnectError::Corrupt => CORRUPT,
        })
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Full => "the channel is full; wait until the receiver has made room",
            SendError::TimedOut => {
                "the channel was full until the time was over; the receiver is too slow, or stopped"
            }
            SendError::Disconnected => {
                "the channel has no receiver any more; start its receiver, and send again"
            }
            SendError::Truncated => TRUNCATED,
            SendError::Corrupt => CORRUPT,
        })
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvError::Empty => "the channel is empty; wait until something has been sent",
            RecvError::TimedOut => {
                "nothing was sent until the time was over; the senders have nothing, or are stopped"
            }
            RecvError::Disconnected => {
                "the channel has no senders any more; start its senders, and receive again"
            }
            RecvError::Truncated => TRUNCATED,
            RecvError::Corrupt => CORRUPT,
        })
    }
}

impl std::error::Error for ConnectError {}
impl std::error::Error for SendError {}
impl std::error::Error for RecvError {}
