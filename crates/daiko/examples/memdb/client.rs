//! A client of the server, over TCP or through a segment.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use daiko::net::TcpStream;
use daiko::shm::{CallError, Client, Segment, SegmentError};
use daiko::sync::Mutex;

use super::options::ServerName;
use super::request::{DbRequest, MOST_REPLY_BYTES, Reply};
use super::serve::SERVICE;
use super::session::frame;

/// The timeout of a call. A running server replies in microseconds; a stopped server does not.
const PATIENCE: Duration = Duration::from_secs(10);
/// The period in which a client looks for a new segment.
const LOOK: Duration = Duration::from_millis(100);

/// A client, for one fiber at a time.
pub(crate) enum Remote {
    Tcp { stream: TcpStream, bytes: Vec<u8> },
    Segment(Arc<Attached>),
}

/// A client through a segment, for any number of fibers.
pub(crate) struct Attached {
    name: OsString,
    place: Mutex<Arc<CallPlace>>,
}

struct CallPlace {
    segment: Segment,
    client: Client,
}

/// The reason why there is no reply.
#[derive(Debug)]
pub(crate) enum RemoteError {
    Segment(SegmentError),
    Call(CallError),
    Stream(io::Error),
    /// The reply cannot be decoded.
    Unreadable,
}

impl Remote {
    pub(crate) fn connect(server: &ServerName) -> Result<Remote, RemoteError> {
        match server {
            ServerName::Tcp(address) => {
                let stream = TcpStream::connect(address).map_err(RemoteError::Stream)?;
                stream.set_nodelay(true).map_err(RemoteError::Stream)?;
                Ok(Remote::Tcp { stream, bytes: Vec::new() })
            }
            ServerName::Segment(name) => {
                let place = Mutex::new(CallPlace::open(name)?);
                Ok(Remote::Segment(Arc::new(Attached { name: name.clone(), place })))
            }
        }
    }

    /// Returns a client for another fiber: with a connection of its own, or through the same
    /// segment.
    pub(crate) fn another(&self, server: &ServerName) -> Result<Remote, RemoteError> {
        match self {
            Remote::Tcp { .. } => Remote::connect(server),
            Remote::Segment(attached) => Ok(Remote::Segment(Arc::clone(attached))),
        }
    }

    pub(crate) fn ask(&mut self, request: &DbRequest) -> Result<Reply, RemoteError> {
        match self {
            Remote::Tcp { stream, bytes } => {
                ask_stream(stream, bytes, request).map_err(RemoteError::Stream)?;
                Reply::decode(bytes).ok_or(RemoteError::Unreadable)
            }
            Remote::Segment(attached) => {
                let mut bytes = Vec::new();
                request.encode(&mut bytes);
                let place = attached.place();
                let reply = place.client.call_bytes(&bytes, Some(PATIENCE));
                let reply = reply.map_err(RemoteError::Call)?.to_vec();
                Reply::decode(&reply).ok_or(RemoteError::Unreadable)
            }
        }
    }

    /// Waits for a server that takes over from one that has ended. A killed server leaves its
    /// segment, and the next one uses it; a stopped server removes it.
    pub(crate) fn reconnect(&mut self, server: &ServerName) -> Result<(), RemoteError> {
        let attached = match self {
            Remote::Tcp { .. } => {
                *self = Remote::connect(server)?;
                return Ok(());
            }
            Remote::Segment(attached) => attached,
        };
        loop {
            let place = attached.place();
            match place.client.wait_served(Some(LOOK)) {
                Err(CallError::TimedOut { .. }) => {}
                outcome => return outcome.map_err(RemoteError::Call),
            }
            if place.segment.is_removed().map_err(RemoteError::Segment)?
                && let Ok(place) = CallPlace::open(&attached.name)
            {
                *attached.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
            }
        }
    }
}

/// Sends a request, and reads the reply into `bytes`.
fn ask_stream(stream: &mut TcpStream, bytes: &mut Vec<u8>, request: &DbRequest) -> io::Result<()> {
    bytes.clear();
    frame(bytes, |bytes| request.encode(bytes));
    stream.write_all(bytes)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST_REPLY_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the reply is too long"));
    }
    bytes.resize(length, 0);
    stream.read_exact(bytes)
}

impl Attached {
    fn place(&self) -> Arc<CallPlace> {
        Arc::clone(&self.place.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CallPlace {
    fn open(name: &OsStr) -> Result<Arc<CallPlace>, RemoteError> {
        let segment = Segment::open(name).map_err(RemoteError::Segment)?;
        let client = Client::connect(&segment, SERVICE).map_err(RemoteError::Segment)?;
        Ok(Arc::new(CallPlace { segment, client }))
    }
}

impl RemoteError {
    /// Returns true if the server has ended, so that another one may take over.
    pub(crate) fn is_end_of_server(&self) -> bool {
        match self {
            RemoteError::Call(error) => {
                matches!(error, CallError::NotServed | CallError::ServerDied)
            }
            RemoteError::Stream(error) => matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
            ),
            RemoteError::Segment(_) | RemoteError::Unreadable => false,
        }
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemoteError::Segment(error) => error.fmt(f),
            RemoteError::Call(error) => error.fmt(f),
            RemoteError::Stream(error) => {
                write!(f, "the server cannot be reached: {error}; start it by memdb serve")
            }
            RemoteError::Unreadable => {
                f.write_str("the reply cannot be read; use client and server of one build")
            }
        }
    }
}
