//! The form of a log: records, with contents that the program defines in its module `contents`. It
//! knows no file.
//!
//! ```text
//! log     head record...
//! head    the program's name for its logs (8 bytes), seed, checksum of both
//! record  length, checksum of the length, checksum of the contents, contents
//! ```
//!
//! All numbers have 32 bits, the least significant byte first. Checksums are CRC-32, begun with the
//! seed of the log, which is random: so a client cannot store a value that looks like a record.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::contents;

/// The number of bytes of the head of a log.
pub(crate) const HEAD_BYTES: usize = 16;
/// The number of bytes before the contents of a record.
const HEADER_BYTES: usize = 12;

/// The form of one log: its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    seed: u32,
}

/// The beginning of some bytes of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next<'b> {
    /// A record takes the first `bytes`. Its contents are whole.
    Record { contents: &'b [u8], bytes: usize },
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
        head[..8].copy_from_slice(contents::NAME);
        head[8..12].copy_from_slice(&self.seed.to_le_bytes());
        let sum = crc32fast::hash(&head[..12]);
        head[12..].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// Reads the head of a log. `None` if it does not begin with one of this program.
    pub(crate) fn of_head(log: &[u8]) -> Option<Format> {
        let head: &[u8; HEAD_BYTES] = log.first_chunk()?;
        let format = Format::with_seed(number(&head[8..])?);
        (*head == format.head()).then_some(format)
    }

    /// Appends a record with these contents.
    pub(crate) fn append(self, log: &mut Vec<u8>, contents: &[u8]) {
        let start = begin(log);
        log.extend_from_slice(contents);
        self.finish(log, start);
    }

    /// Completes the record that [`begin`] has begun at `start`, behind which are its contents.
    ///
    /// # Panics
    ///
    /// If they have 4 GiB or more.
    pub(crate) fn finish(self, log: &mut [u8], start: usize) {
        let (header, contents) = log[start..].split_at_mut(HEADER_BYTES);
        let bytes = u32::try_from(contents.len()).expect("fewer bytes than 4 GiB").to_le_bytes();
        header[..4].copy_from_slice(&bytes);
        header[4..8].copy_from_slice(&self.sum(&bytes).to_le_bytes());
        header[8..].copy_from_slice(&self.sum(contents).to_le_bytes());
    }

    /// Reads the record that `log` begins with.
    pub(crate) fn next(self, log: &[u8]) -> Next<'_> {
        let Some((header, rest)) = log.split_at_checked(HEADER_BYTES) else { return Next::Short };
        let word = |index: usize| number(&header[4 * index..]);
        let (Some(bytes), Some(check), Some(sum)) = (word(0), word(1), word(2)) else {
            return Next::Short;
        };
        if check != self.sum(&header[..4]) || bytes == 0 {
            return Next::Bad;
        }
        let Some(contents) = rest.get(..bytes as usize) else { return Next::Short };
        if sum != self.sum(contents) || !contents::are_whole(contents) {
            return Next::Bad;
        }
        Next::Record { contents, bytes: HEADER_BYTES + contents.len() }
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

/// Begins a record at the end of `log`, and returns where. Its contents follow, then
/// [`Format::finish`].
pub(crate) fn begin(log: &mut Vec<u8>) -> usize {
    let start = log.len();
    log.extend_from_slice(&[0; HEADER_BYTES]);
    start
}

/// Reads the number of 32 bits that `bytes` begin with.
fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.first_chunk()?))
}
