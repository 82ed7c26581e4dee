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
    /// There is no room now.
    Full,
    /// There was no room in time.
    TimedOut,
    /// There is no receiver any more: it has been dropped, or has died.
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
    /// There is none now.
    Empty,
    /// There was none in time.
    TimedOut,
    /// There is none, and no sender any more: all have been dropped, or have died.
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
                "the ends of the channel are in use; end who has one, or create it for more senders"
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
                "nobody receives from the channel any more; start its receiver, and send again"
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
                "nobody sends into the channel any more; start its senders, and receive again"
            }
            RecvError::Truncated => TRUNCATED,
            RecvError::Corrupt => CORRUPT,
        })
    }
}

impl std::error::Error for ConnectError {}
impl std::error::Error for SendError {}
impl std::error::Error for RecvError {}
