//! The bytes of a slot: a request, then its reply. They are plain bytes, so that none of them can
//! be invalid memory.
//!
//! ```text
//! request   verb: 1 byte, length of the key: 4 bytes, key, value
//! reply     outcome: 1 byte, value
//! ```
//!
//! A reader must expect arbitrary bytes, as any process may write there.

use std::fmt;

/// The name of the service in its segment. Raise the number with every change of this file, so that
/// programs of different versions do not find each other.
pub(crate) const SERVICE: &str = "shm-kv/1";
/// The fewest bytes of a slot: it holds any number that `incr` makes.
pub(crate) const LEAST_SLOT_BYTES: u32 = 32;

/// A request of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'b> {
    Get {
        key: &'b [u8],
    },
    Set {
        key: &'b [u8],
        value: &'b [u8],
    },
    Del {
        key: &'b [u8],
    },
    Incr {
        key: &'b [u8],
        by: i64,
    },
    /// Asks for as many of the keys behind `after` as the reply has room for.
    Keys {
        after: &'b [u8],
    },
    Stop,
}

/// The reason why a request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoKey,
    NoNumber,
    OutOfRange,
    Malformed,
}

/// The reply of a server.
pub(crate) type Outcome = Result<Vec<u8>, Refusal>;

impl<'b> Request<'b> {
    pub(crate) fn encode(self) -> Vec<u8> {
        let number;
        let (verb, key, value): (u8, &[u8], &[u8]) = match self {
            Request::Get { key } => (0, key, &[]),
            Request::Set { key, value } => (1, key, value),
            Request::Del { key } => (2, key, &[]),
            Request::Incr { key, by } => {
                number = by.to_ne_bytes();
                (3, key, &number)
            }
            Request::Keys { after } => (4, after, &[]),
            Request::Stop => (5, &[], &[]),
        };
        [&[verb], &length(key)[..], key, value].concat()
    }

    /// Decodes `bytes`, if they are a request.
    pub(crate) fn decode(bytes: &'b [u8]) -> Option<Request<'b>> {
        let (&verb, rest) = bytes.split_first()?;
        let (key, value) = split_key(rest)?;
        Some(match (verb, value) {
            (0, []) => Request::Get { key },
            (1, value) => Request::Set { key, value },
            (2, []) => Request::Del { key },
            (3, value) => Request::Incr { key, by: i64::from_ne_bytes(value.try_into().ok()?) },
            (4, []) => Request::Keys { after: key },
            (5, []) => Request::Stop,
            _ => return None,
        })
    }
}

impl Refusal {
    const ALL: [Refusal; 4] =
        [Refusal::NoKey, Refusal::NoNumber, Refusal::OutOfRange, Refusal::Malformed];
}

pub(crate) fn encode_outcome(outcome: Outcome) -> Vec<u8> {
    match outcome {
        Ok(value) => [&[0], &value[..]].concat(),
        Err(refusal) => vec![1 + refusal as u8],
    }
}

/// Decodes `bytes`, if they are a reply.
pub(crate) fn decode_outcome(bytes: &[u8]) -> Option<Outcome> {
    let (&outcome, value) = bytes.split_first()?;
    match outcome.checked_sub(1) {
        None => Some(Ok(value.to_vec())),
        Some(refusal) => Some(Err(*Refusal::ALL.get(usize::from(refusal))?)),
    }
}

/// Encodes as many of `keys` as fit into a reply of `slot_bytes`: at least one, as the request that
/// brought it was no shorter.
pub(crate) fn encode_keys<'k>(keys: impl Iterator<Item = &'k [u8]>, slot_bytes: usize) -> Vec<u8> {
    let mut page = Vec::new();
    for key in keys {
        let entry = [&length(key)[..], key].concat();
        if 1 + page.len() + entry.len() > slot_bytes {
            break;
        }
        page.extend(entry);
    }
    page
}

/// Returns the keys in `page`, if it is well formed.
pub(crate) fn decode_keys(mut page: &[u8]) -> Option<Vec<&[u8]>> {
    let mut keys = Vec::new();
    while !page.is_empty() {
        let (key, rest) = split_key(page)?;
        keys.push(key);
        page = rest;
    }
    Some(keys)
}

fn length(key: &[u8]) -> [u8; 4] {
    // A key that is longer than 4 GiB fits into no slot, and is not sent.
    (key.len() as u32).to_ne_bytes()
}

/// Splits a length, so many bytes, and the rest.
fn split_key(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_ne_bytes(*length) as usize)
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NoKey => "there is no such key; set it first (shm-kv set NAME KEY VALUE)",
            Refusal::NoNumber => "the value is no number; set the key to one first",
            Refusal::OutOfRange => {
                "the sum does not fit into 64 bits; set the key to a smaller number"
            }
            Refusal::Malformed => {
                "the server could not read the request; use client and server of one build"
            }
        })
    }
}
