//! Reasons why a call has no reply, or why a service cannot be served.

use std::fmt;

use crate::SegmentError;

/// Reason why a call has no reply. Each message is one line that names the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The deadline has passed. If `taken`, the server may still carry out the request, or has
    /// done so; otherwise it has not seen the request, or the call waited for a slot.
    TimedOut {
        /// Whether the server had the request in hand.
        taken: bool,
    },
    /// No process serves it. The request was not posted, or no server has seen it.
    NotServed,
    /// The server died, or stopped serving, while it had the request in hand: it may have carried
    /// it out.
    ServerDied,
    /// The server panicked while it had the request in hand.
    Panicked,
    /// The message does not fit into a slot.
    TooLarge {
        /// Length of the message in bytes.
        bytes: usize,
        /// Length of a slot in bytes.
        limit: usize,
    },
    /// The reply has another size than the type that it is read as.
    Size {
        /// Size of that type in bytes.
        expected: usize,
        /// Length of the reply in bytes.
        found: usize,
    },
    /// The segment's file was cut short.
    Truncated,
    /// The slot holds a value that no program of this version writes.
    Corrupt,
}

impl CallError {
    /// Returns true if no server has seen the request, nor will: a repeated call does not have it
    /// carried out twice.
    ///
    /// If this is false, the request may have been carried out, in part or as a whole.
    ///
    /// ```
    /// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
    /// use daiko::shm::{CallError, Client, Reply};
    /// use std::time::{Duration, Instant};
    ///
    /// /// Adds to a number once, even if the server is restarted before it takes the request.
    /// fn add<'c>(client: &'c Client, by: u64, deadline: Instant) -> Result<Reply<'c>, CallError> {
    ///     loop {
    ///         let left = deadline.saturating_duration_since(Instant::now());
    ///         client.wait_served(Some(left))?;
    ///         match client.call_timeout(&by, left) {
    ///             Err(error) if error.was_not_carried_out() && Instant::now() < deadline => {}
    ///             outcome => return outcome,
    ///         }
    ///     }
    /// }
    /// ```
    pub fn was_not_carried_out(&self) -> bool {
        match self {
            CallError::TimedOut { taken } => !taken,
            CallError::NotServed | CallError::TooLarge { .. } => true,
            CallError::ServerDied
            | CallError::Panicked
            | CallError::Size { .. }
            | CallError::Truncated
            | CallError::Corrupt => false,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::TimedOut { taken: true } => f.write_str(
                "the deadline has passed while the server had the request in hand; it may yet be carried out",
            ),
            CallError::TimedOut { taken: false } => {
                f.write_str("the deadline has passed before the server took the request; it will not be carried out")
            }
            CallError::NotServed => {
                f.write_str("no process serves this; start its server, and call again")
            }
            CallError::ServerDied => f.write_str(
                "the server ended while it had the request in hand, and may have carried it out; call again once it \
                 is served anew",
            ),
            CallError::Panicked => {
                f.write_str("the server panicked while it carried the request out; see its standard error")
            }
            CallError::TooLarge { bytes, limit } => write!(
                f,
                "a message of {bytes} bytes does not fit into a slot of {limit}; create the service with larger slots"
            ),
            CallError::Size { expected, found } => write!(
                f,
                "the message has {found} bytes, not {expected}; build client and server with the same types"
            ),
            CallError::Truncated => f.write_str(
                "the segment's file was cut short; end all its users, remove it and create it anew",
            ),
            CallError::Corrupt => f.write_str(
                "the slot was changed by a program that does not keep to the protocol; end all users of the segment \
                 and create it anew",
            ),
        }
    }
}

impl std::error::Error for CallError {}

/// Reason why a service cannot be served.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// Another process serves it, or this one does already, and one of the two does not
    /// [share](super::ServerBuilder::shared) it.
    Served,
    /// The service has 16 servers.
    Full,
    /// A fiber could not be spawned.
    Spawn(daiko_rt::SpawnError),
    /// The segment refuses the server.
    Segment(SegmentError),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Served => {
                f.write_str("the service is being served already; end that server first, or have all servers share it")
            }
            ServeError::Full => f.write_str("the service has 16 servers; end one of them first"),
            ServeError::Spawn(error) => error.fmt(f),
            ServeError::Segment(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServeError {}
