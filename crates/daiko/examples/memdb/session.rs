//! A session: the requests of a client in a stream of bytes, and the replies to them. It knows no
//! socket, and does not wait.
//!
//! A request or reply follows its length, which has four bytes, the least significant one first.

use std::mem;

use super::database::MemDb;
use super::log::Position;
use super::request::{DbRequest, MOST_REQUEST_BYTES, Refusal, Reply};

/// Bytes that a session reads at a time: at least the longest request.
const INPUT_BYTES: usize = 512;
const LENGTH_BYTES: usize = 4;
const _: () = assert!(INPUT_BYTES >= LENGTH_BYTES + MOST_REQUEST_BYTES);

pub(crate) struct Session {
    /// Its first `filled` bytes have come, and belong to no completed request.
    input: [u8; INPUT_BYTES],
    filled: usize,
    pub(crate) replies: UnsentReplies,
}

/// Replies that were not sent.
#[derive(Default)]
pub(crate) struct UnsentReplies {
    pub(crate) bytes: Vec<u8>,
    /// The end of each reply, and the position that the log has to reach before it is sent.
    ends: Vec<(usize, Position)>,
}

impl Session {
    pub(crate) fn new() -> Session {
        Session { input: [0; INPUT_BYTES], filled: 0, replies: UnsentReplies::default() }
    }

    /// Returns the room for further bytes, at least one.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.input[self.filled..]
    }

    /// Carries out the requests that are complete with the first `bytes` of the room. Returns false
    /// if the session ends after the replies, as bytes have come that are no request.
    pub(crate) fn advance(&mut self, bytes: usize, database: &MemDb) -> bool {
        self.filled += bytes;
        let (mut rest, mut goes_on) = (&self.input[..self.filled], true);
        while let Some((length, behind)) = rest.split_first_chunk() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > MOST_REQUEST_BYTES {
                self.replies.add(&Reply::Refused(Refusal::Malformed), Position::default());
                (rest, goes_on) = (&[], false);
                break;
            }
            let Some((request, behind)) = behind.split_at_checked(length) else { break };
            let (reply, position) = match DbRequest::decode(request) {
                Some(request) => database.execute(&request),
                None => (Reply::Refused(Refusal::Malformed), Position::default()),
            };
            self.replies.add(&reply, position);
            rest = behind;
        }
        let start = self.filled - rest.len();
        self.input.copy_within(start..self.filled, 0);
        self.filled -= start;
        goes_on
    }
}

impl UnsentReplies {
    pub(crate) fn add(&mut self, reply: &Reply, position: Position) {
        frame(&mut self.bytes, |bytes| reply.encode(bytes));
        self.ends.push((self.bytes.len(), position));
    }

    /// Returns the position that the log has to reach before all are sent.
    pub(crate) fn after(&self) -> Position {
        self.ends.iter().map(|(_, position)| *position).max().unwrap_or_default()
    }

    /// Makes errors of the replies that the log has not `reached`.
    pub(crate) fn fail_after(&mut self, reached: Position, reason: &str) {
        let old = mem::take(self);
        let mut start = 0;
        for (end, position) in old.ends {
            if position <= reached {
                self.bytes.extend_from_slice(&old.bytes[start..end]);
                self.ends.push((self.bytes.len(), position));
            } else {
                self.add(&Reply::Failed(reason.into()), Position::default());
            }
            start = end;
        }
    }

    /// Returns the only reply, without its length.
    pub(crate) fn only(&self) -> &[u8] {
        &self.bytes[LENGTH_BYTES..]
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Appends a length, and as many bytes, which `encode` appends.
pub(crate) fn frame(bytes: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; LENGTH_BYTES]);
    encode(bytes);
    // No request or reply is longer than a page.
    let length = (bytes.len() - start - LENGTH_BYTES) as u32;
    bytes[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
}
