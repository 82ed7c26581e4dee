//! The form of the log: a record for each request that changed keys. It knows no file.
//!
//! ```text
//! log     head record...
//! head    "kv-log 1", seed, checksum of both
//! record  length, checksum of the length, checksum of the changes, change...
//! change  1 expiry key value      a value is set; the expiry in milliseconds of Unix time
//!         2 key                   a key is removed
//!         3                       all keys are removed
//!         4                       the log was rewritten: the keys are those of the records before
//! ```
//!
//! Keys and values are bytes behind their length. All numbers have 32 bits, an expiry 64, the least
//! significant byte first. Checksums are CRC-32, begun with the seed of the log, which is random:
//! so a client cannot store a value that looks like a record.
//!
//! Changes state the result, not the operation: it does no harm to repeat them in order.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The number of bytes of the head of a log.
pub(crate) const HEAD_BYTES: usize = 16;
const NAME: &[u8; 8] = b"kv-log 1";
/// The number of bytes before the changes of a record.
const HEADER_BYTES: usize = 12;

const SET: u8 = 1;
const REMOVE: u8 = 2;
const CLEAR: u8 = 3;
const REWRITTEN: u8 = 4;

/// A change of the keys, or a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyChange<'b> {
    Set { key: &'b [u8], value: &'b [u8], expires: i64 },
    Remove { key: &'b [u8] },
    Clear,
    Rewritten,
}

/// The form of one log: its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    seed: u32,
}

/// The beginning of some bytes of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next<'b> {
    /// A record takes the first `bytes`.
    Record { changes: Changes<'b>, bytes: usize },
    /// The bytes end before the record does. There may be none.
    Short,
    /// They are no record, for any bytes behind them.
    Bad,
}

impl Format {
    /// Chooses a seed for a new log.
    pub(crate) fn new() -> Format {
        Format::with_seed(RandomState::new().build_hasher().finish() as u32)
    }

    pub(crate) fn with_seed(seed: u32) -> Format {
        Format { seed }
    }

    /// Returns the bytes that a log begins with.
    pub(crate) fn head(self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(NAME);
        head[8..12].copy_from_slice(&self.seed.to_le_bytes());
        let sum = crc32fast::hash(&head[..12]);
        head[12..].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// Reads the head of a log. `None` if it does not begin with one.
    pub(crate) fn of_head(log: &[u8]) -> Option<Format> {
        let head: &[u8; HEAD_BYTES] = log.first_chunk()?;
        let format = Format::with_seed(number(&mut &head[8..])?);
        (*head == format.head()).then_some(format)
    }

    /// Appends a record with these changes.
    pub(crate) fn append(self, log: &mut Vec<u8>, changes: &[KeyChange<'_>]) {
        let start = begin(log);
        changes.iter().for_each(|change| change.encode(log));
        self.finish(log, start);
    }

    /// Completes the record that [`begin`] has begun at `start`, behind which are its changes.
    pub(crate) fn finish(self, log: &mut [u8], start: usize) {
        let (header, changes) = log[start..].split_at_mut(HEADER_BYTES);
        // A request has at most 1 GiB, and the rest of a change less than its words in a request.
        let bytes = u32::try_from(changes.len()).expect("fewer bytes than 4 GiB").to_le_bytes();
        header[..4].copy_from_slice(&bytes);
        header[4..8].copy_from_slice(&self.sum(&bytes).to_le_bytes());
        header[8..].copy_from_slice(&self.sum(changes).to_le_bytes());
    }

    /// Reads the record that `log` begins with.
    pub(crate) fn next(self, log: &[u8]) -> Next<'_> {
        let Some((header, rest)) = log.split_at_checked(HEADER_BYTES) else { return Next::Short };
        let word = |index: usize| number(&mut &header[4 * index..]);
        let (Some(bytes), Some(check), Some(sum)) = (word(0), word(1), word(2)) else {
            return Next::Short;
        };
        if check != self.sum(&header[..4]) || bytes == 0 {
            return Next::Bad;
        }
        let Some(changes) = rest.get(..bytes as usize) else { return Next::Short };
        if sum != self.sum(changes) || !Changes(changes).are_whole() {
            return Next::Bad;
        }
        Next::Record { changes: Changes(changes), bytes: HEADER_BYTES + changes.len() }
    }

    /// Returns true if there is a whole record anywhere in these bytes.
    pub(crate) fn has_record(self, bytes: &[u8]) -> bool {
        let is_record = |start| matches!(self.next(&bytes[start..]), Next::Record { .. });
        (0..bytes.len()).any(is_record)
    }

    fn sum(self, bytes: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.seed);
        hasher.update(bytes);
        hasher.finalize()
    }
}

/// Begins a record at the end of `log`, and returns where. Its changes follow, then
/// [`Format::finish`].
pub(crate) fn begin(log: &mut Vec<u8>) -> usize {
    let start = log.len();
    log.extend_from_slice(&[0; HEADER_BYTES]);
    start
}

impl<'b> KeyChange<'b> {
    /// Appends the change to a record.
    pub(crate) fn encode(&self, record: &mut Vec<u8>) {
        match self {
            KeyChange::Set { key, value, expires } => {
                record.push(SET);
                record.extend_from_slice(&expires.to_le_bytes());
                encode_text(record, key);
                encode_text(record, value);
            }
            KeyChange::Remove { key } => {
                record.push(REMOVE);
                encode_text(record, key);
            }
            KeyChange::Clear => record.push(CLEAR),
            KeyChange::Rewritten => record.push(REWRITTEN),
        }
    }

    /// Takes the first change off `rest`. `None` if there is none.
    fn decode(rest: &mut &'b [u8]) -> Option<KeyChange<'b>> {
        Some(match *rest.split_off_first()? {
            SET => {
                let expires = i64::from_le_bytes(*rest.split_off(..8)?.first_chunk()?);
                KeyChange::Set { key: text(rest)?, value: text(rest)?, expires }
            }
            REMOVE => KeyChange::Remove { key: text(rest)? },
            CLEAR => KeyChange::Clear,
            REWRITTEN => KeyChange::Rewritten,
            _ => return None,
        })
    }
}

/// The changes of a record, all of which are whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changes<'b>(&'b [u8]);

impl Changes<'_> {
    /// Returns true if the bytes are changes to the last one.
    fn are_whole(mut self) -> bool {
        while !self.0.is_empty() {
            if KeyChange::decode(&mut self.0).is_none() {
                return false;
            }
        }
        true
    }
}

impl<'b> Iterator for Changes<'b> {
    type Item = KeyChange<'b>;

    fn next(&mut self) -> Option<KeyChange<'b>> {
        KeyChange::decode(&mut self.0)
    }
}

fn encode_text(record: &mut Vec<u8>, text: &[u8]) {
    // No word of a request is longer than 512 MiB.
    record.extend_from_slice(&(text.len() as u32).to_le_bytes());
    record.extend_from_slice(text);
}

fn text<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let bytes = number(rest)?;
    rest.split_off(..bytes as usize)
}

/// Takes a number of 32 bits off `rest`.
fn number(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*rest.split_off(..4)?.first_chunk()?))
}
