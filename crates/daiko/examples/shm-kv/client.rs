//! A client of the server.

use std::ffi::OsStr;
use std::fmt;
use std::time::Duration;

use daiko::shm::{CallError, Client, Segment, SegmentError};

use crate::protocol::{Refusal, Request, SERVICE, decode_keys, decode_outcome};

/// The timeout of a call. A running server replies in microseconds; a stopped server does not.
const PATIENCE: Duration = Duration::from_secs(5);

/// A store, as its clients see it: any number of fibers and threads may use it at a time.
pub(crate) struct Kv {
    segment: Segment,
    client: Client,
}

/// The reason why a request was not, or perhaps not, carried out.
#[derive(Debug)]
pub(crate) enum KvError {
    Segment(SegmentError),
    Call(CallError),
    Refused(Refusal),
    /// The reply cannot be decoded.
    Unreadable,
}

impl Kv {
    pub(crate) fn connect(name: &OsStr) -> Result<Kv, KvError> {
        let segment = Segment::open(name).map_err(KvError::Segment)?;
        let client = Client::connect(&segment, SERVICE).map_err(KvError::Segment)?;
        Ok(Kv { segment, client })
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Vec<u8>, KvError> {
        self.ask(Request::Get { key })
    }

    pub(crate) fn set(&self, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.ask(Request::Set { key, value }).map(drop)
    }

    pub(crate) fn del(&self, key: &[u8]) -> Result<(), KvError> {
        self.ask(Request::Del { key }).map(drop)
    }

    /// Adds to a number; returns the sum.
    ///
    /// Repeat it only if it [was not carried out](CallError::was_not_carried_out), as it may add
    /// twice otherwise.
    pub(crate) fn incr(&self, key: &[u8], by: i64) -> Result<i64, KvError> {
        let text = String::from_utf8(self.ask(Request::Incr { key, by })?);
        text.ok().and_then(|text| text.parse().ok()).ok_or(KvError::Unreadable)
    }

    /// Calls `each` with the keys, page by page. A key that is set or deleted meanwhile may be
    /// among them or not.
    pub(crate) fn keys<E: From<KvError>>(
        &self,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut after = Vec::new();
        loop {
            let page = self.ask(Request::Keys { after: &after })?;
            let keys = decode_keys(&page).ok_or(KvError::Unreadable)?;
            let Some(last) = keys.last() else { return Ok(()) };
            // Otherwise a server that repeats its pages would keep the client here.
            if *last <= &after[..] {
                return Err(KvError::Unreadable.into());
            }
            keys.iter().try_for_each(|key| each(key))?;
            after = last.to_vec();
        }
    }

    /// Ends the server.
    pub(crate) fn stop(&self) -> Result<(), KvError> {
        self.ask(Request::Stop).map(drop)
    }

    /// Waits until a server serves.
    pub(crate) fn wait_served(&self, patience: Duration) -> Result<(), KvError> {
        self.client.wait_served(Some(patience)).map_err(KvError::Call)
    }

    /// Whether the server was stopped: a server that is started later has a new segment.
    pub(crate) fn is_removed(&self) -> Result<bool, KvError> {
        self.segment.is_removed().map_err(KvError::Segment)
    }

    fn ask(&self, request: Request<'_>) -> Result<Vec<u8>, KvError> {
        let reply = self.client.call_bytes(&request.encode(), Some(PATIENCE));
        let reply = reply.map_err(KvError::Call)?.to_vec();
        decode_outcome(&reply).ok_or(KvError::Unreadable)?.map_err(KvError::Refused)
    }
}

impl fmt::Display for KvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KvError::Segment(error) => error.fmt(f),
            KvError::Call(CallError::TooLarge { bytes, limit }) => write!(
                f,
                "key and value take {bytes} bytes, a slot has {limit}; stop the server, and start it with \
                 --slot-bytes {bytes}"
            ),
            KvError::Call(error) => error.fmt(f),
            KvError::Refused(refusal) => refusal.fmt(f),
            KvError::Unreadable => {
                f.write_str("the reply cannot be read; use client and server of one build")
            }
        }
    }
}
