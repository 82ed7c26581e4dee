//! Reads the records of a log, from its first byte to its end, or to the first byte that is no
//! record.

use std::io::{self, ErrorKind, Read};

use super::contents::REWRITTEN_NOTE;
use super::record::{Format, HEAD_BYTES, Next};

/// The number of bytes of a read.
const READ_BYTES: usize = 64 << 10;

/// The contents of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) format: Format,
    /// The bytes up to the end of the last record that was read.
    pub(crate) bytes: u64,
    /// The bytes up to the note of the last rewrite; 0 without one.
    pub(crate) rewritten: u64,
    pub(crate) rest: Rest,
}

/// The bytes behind the last record that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    None,
    /// So many bytes, as an interrupted write leaves them: no whole record is in them.
    Torn(u64),
    /// So many bytes, with whole records in them.
    Damaged(u64),
}

/// The reason why a log cannot be read.
#[derive(Debug)]
pub(crate) enum ReplayError {
    Read(io::Error),
    /// It does not begin as a log.
    Foreign,
}

/// Calls `each` with the contents of all records, up to the first byte that is no record.
pub(crate) fn replay(log: impl Read, mut each: impl FnMut(&[u8])) -> Result<Contents, ReplayError> {
    let mut window = Window { log, bytes: Vec::new(), start: 0, offset: 0 };
    while window.rest().len() < HEAD_BYTES && window.read()? {}
    let format = Format::of_head(window.rest()).ok_or(ReplayError::Foreign)?;
    window.pass(HEAD_BYTES);
    let mut rewritten = 0;
    let rest = loop {
        match format.next(window.rest()) {
            Next::Record { contents, bytes } => {
                match contents == REWRITTEN_NOTE {
                    true => rewritten = window.offset + bytes as u64,
                    false => each(contents),
                }
                window.pass(bytes);
            }
            Next::Short => {
                if !window.read()? {
                    break match window.rest().len() {
                        0 => Rest::None,
                        bytes => Rest::Torn(bytes as u64),
                    };
                }
            }
            Next::Bad => {
                while window.read()? {}
                let rest = window.rest();
                let is_damaged = format.has_record(rest);
                let kind = if is_damaged { Rest::Damaged } else { Rest::Torn };
                break kind(rest.len() as u64);
            }
        }
    };
    Ok(Contents { format, bytes: window.offset, rewritten, rest })
}

/// The bytes of the log that were read, and belong to no record yet.
struct Window<R> {
    log: R,
    bytes: Vec<u8>,
    /// The bytes before it are done with.
    start: usize,
    /// The place of `start` in the log.
    offset: u64,
}

impl<R: Read> Window<R> {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn pass(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Reads more bytes. Returns false at the end of the log.
    fn read(&mut self) -> Result<bool, ReplayError> {
        self.bytes.drain(..self.start);
        self.start = 0;
        let end = self.bytes.len();
        self.bytes.resize(end + READ_BYTES, 0);
        let read = loop {
            match self.log.read(&mut self.bytes[end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.bytes.truncate(end + read.as_ref().map_or(0, |bytes| *bytes));
        read.map(|bytes| bytes > 0).map_err(ReplayError::Read)
    }
}
