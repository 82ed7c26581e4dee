//! RESP2, the protocol of Redis: parses requests from bytes, and encodes replies. It knows no
//! socket and no store.
//!
//! A request is an array of strings, each behind its length; or a line of words, as a user types it
//! into `telnet`:
//!
//! ```text
//! *2\r\n$3\r\nGET\r\n$4\r\ncity\r\n
//! GET "city"\r\n
//! ```
//!
//! The accepted requests, the limits, and the errors are those of Redis. Redis does not look at the
//! byte behind a `\r`, nor at the two bytes behind an argument, and neither does this module.

use std::mem;
use std::ops::{Index, Range};

use super::log::Position;
use super::words;

const MOST_ARGUMENTS: i64 = 1 << 20;
const MOST_ARGUMENT_BYTES: i64 = 512 << 20;
const MOST_LINE_BYTES: usize = 64 << 10;

/// Finds the requests in the bytes of a client, which may be cut anywhere.
#[derive(Default)]
pub(crate) struct Parser {
    /// The places of the arguments that have come. It grows with them, not with the announced
    /// number.
    arguments: Vec<Range<usize>>,
    /// The number of arguments still to come; 0 before the first line of a request.
    missing: usize,
    /// The length of the next argument, once that was read.
    announced: Option<usize>,
    /// The end of the parsed bytes.
    at: usize,
    /// The end of the bytes that were searched for the end of the line that begins at `at`.
    searched: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A request takes the first `bytes`; [`Parser::arguments`] has its words.
    Request { bytes: usize },
    /// The request is incomplete: further bytes have to come.
    Incomplete,
}

/// The reason why bytes are no request. The place where the next request would begin is then
/// unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolError(pub(crate) Vec<u8>);

impl Parser {
    /// Parses on in `input`: all bytes behind the last request, those seen before and those that
    /// have come since.
    ///
    /// Words in quotes are decoded in place; no other byte changes.
    pub(crate) fn parse(&mut self, input: &mut [u8]) -> Result<Parsed, ProtocolError> {
        if self.missing == 0 {
            self.arguments.clear();
            let begun = match input.first() {
                None => false,
                Some(b'*') => self.count(input)?,
                Some(_) => self.line_of_words(input)?,
            };
            if !begun {
                return Ok(Parsed::Incomplete);
            }
        }
        while self.missing > 0 {
            if !self.argument(input)? {
                return Ok(Parsed::Incomplete);
            }
        }
        self.searched = 0;
        Ok(Parsed::Request { bytes: mem::take(&mut self.at) })
    }

    /// Returns the words of the request that was found last, in the `input` where it was. An empty
    /// line has none.
    pub(crate) fn arguments<'r>(&'r self, input: &'r [u8]) -> Arguments<'r> {
        Arguments { input, ranges: &self.arguments }
    }

    /// Returns the number of bytes that it keeps for the next requests.
    pub(crate) fn capacity(&self) -> usize {
        self.arguments.capacity() * size_of::<Range<usize>>()
    }

    /// Reads the number of arguments. A negative number counts as 0.
    fn count(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let Some(line) = self.header(input, "too big mbulk count string")? else {
            return Ok(false);
        };
        let count = integer(&line[1..]).filter(|count| *count <= MOST_ARGUMENTS);
        let count = count.ok_or_else(|| ProtocolError::new("invalid multibulk length"))?;
        self.missing = count.max(0) as usize;
        Ok(true)
    }

    /// Finds the next argument, if all of it is there.
    fn argument(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let bytes = match self.announced {
            Some(bytes) => bytes,
            None => match self.header(input, "too big bulk count string")? {
                Some(line) => length(line)?,
                None => return Ok(false),
            },
        };
        let end = self.at + bytes;
        if input.len() < end + 2 {
            self.announced = Some(bytes);
            return Ok(false);
        }
        self.arguments.push(self.at..end);
        self.announced = None;
        self.missing -= 1;
        self.at = end + 2;
        Ok(true)
    }

    /// Returns the next line, without its last two bytes, if all of it is there.
    #[inline]
    fn header<'i>(
        &mut self,
        input: &'i [u8],
        too_long: &str,
    ) -> Result<Option<&'i [u8]>, ProtocolError> {
        let end = self.find(b'\r', input, too_long)?.filter(|end| end + 1 < input.len());
        Ok(end.map(|end| {
            let line = &input[self.at..end];
            self.at = end + 2;
            line
        }))
    }

    /// Splits the line that `input` begins with.
    fn line_of_words(&mut self, input: &mut [u8]) -> Result<bool, ProtocolError> {
        let Some(end) = self.find(b'\n', input, "too big inline request")? else {
            return Ok(false);
        };
        let bytes = input[..end].strip_suffix(b"\r").map_or(end, <[u8]>::len);
        let words = words::split(&mut input[..bytes], &mut self.arguments);
        words.map_err(|_| ProtocolError::new("unbalanced quotes in request"))?;
        self.at = end + 1;
        Ok(true)
    }

    /// Finds the end of a line. No byte is looked at twice, however small the pieces are in which
    /// the line comes.
    #[inline]
    fn find(
        &mut self,
        mark: u8,
        input: &[u8],
        too_long: &str,
    ) -> Result<Option<usize>, ProtocolError> {
        let from = self.at.max(self.searched);
        let found = input[from..].iter().position(|byte| *byte == mark).map(|bytes| from + bytes);
        self.searched = found.unwrap_or(input.len());
        match self.searched - self.at > MOST_LINE_BYTES {
            true => Err(ProtocolError::new(too_long)),
            false => Ok(found),
        }
    }
}

/// Parses the length in the line before an argument.
fn length(line: &[u8]) -> Result<usize, ProtocolError> {
    let Some(digits) = line.strip_prefix(b"$") else {
        let got = line.first().unwrap_or(&b'\r');
        return Err(ProtocolError([b"expected '$', got '", &[*got][..], b"'"].concat()));
    };
    let bytes = integer(digits).filter(|bytes| (0..=MOST_ARGUMENT_BYTES).contains(bytes));
    bytes.map(|bytes| bytes as usize).ok_or_else(|| ProtocolError::new("invalid bulk length"))
}

/// Parses a number as Redis does: no sign but a minus, no leading zeros, no blanks.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (sign, digits) = match text {
        // Most numbers have one digit, and no other number begins with 0.
        [digit @ b'0'..=b'9'] => return Some(i64::from(digit - b'0')),
        [b'-', digits @ ..] => (-1, digits),
        digits => (1, digits),
    };
    if !matches!(digits, [b'1'..=b'9', ..]) {
        return None;
    }
    digits.iter().try_fold(0i64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| sign * i64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

impl ProtocolError {
    fn new(text: &str) -> Self {
        ProtocolError(text.into())
    }
}

/// The words of a request: slices of the bytes that came.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'r> {
    input: &'r [u8],
    ranges: &'r [Range<usize>],
}

impl<'r> Arguments<'r> {
    pub(crate) fn len(self) -> usize {
        self.ranges.len()
    }

    /// Returns the words from `first` on.
    pub(crate) fn from(self, first: usize) -> impl Iterator<Item = &'r [u8]> {
        self.ranges[first..].iter().map(move |range| &self.input[range.clone()])
    }
}

impl Index<usize> for Arguments<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        &self.input[self.ranges[index].clone()]
    }
}

/// Encoded replies, in order, until they are sent.
#[derive(Default)]
pub(crate) struct Replies {
    pub(crate) bytes: Vec<u8>,
    /// The place that the log has to reach before they are sent.
    after: Position,
    /// The replies that confirm changes.
    confirmations: Vec<Confirmation>,
}

/// A reply that is true once the log has reached a place.
struct Confirmation {
    bytes: Range<usize>,
    after: Position,
}

impl Replies {
    /// Returns the number of bytes that it keeps for the next replies.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity() + self.confirmations.capacity() * size_of::<Confirmation>()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.confirmations.clear();
    }

    /// Returns the place that the log has to reach before the replies are sent.
    pub(crate) fn after(&self) -> Position {
        self.after
    }

    /// Notes that the replies tell of the log up to this place.
    pub(crate) fn follow(&mut self, position: Position) {
        self.after = self.after.max(position);
    }

    /// Notes that the replies from `start` on confirm a change.
    pub(crate) fn confirm(&mut self, start: usize) {
        let (bytes, after) = (start..self.bytes.len(), self.after);
        self.confirmations.push(Confirmation { bytes, after });
    }

    /// Replaces the confirmations of changes by a refusal, unless the log has `reached` them.
    pub(crate) fn refuse_after(&mut self, reached: Position, reason: &str) {
        let all = mem::take(&mut self.bytes);
        let mut end = 0;
        for Confirmation { bytes, .. } in
            mem::take(&mut self.confirmations).into_iter().filter(|reply| reply.after > reached)
        {
            self.bytes.extend_from_slice(&all[end..bytes.start]);
            self.refuse(reason);
            end = bytes.end;
        }
        self.bytes.extend_from_slice(&all[end..]);
    }

    /// Adds the error for a change that the log does not have.
    pub(crate) fn refuse(&mut self, reason: &str) {
        self.bytes.extend_from_slice(b"-MISCONF ");
        self.bytes.extend_from_slice(reason.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Adds a line of fixed text.
    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// Adds an error line. It may quote the request, so not all of its bytes can be sent as they
    /// are.
    pub(crate) fn error(&mut self, text: &[u8]) {
        let no_end = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
        let text: Vec<u8> = b"ERR ".iter().chain(text).map(no_end).collect();
        self.line(b'-', &text);
    }

    pub(crate) fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    pub(crate) fn bulk(&mut self, text: &[u8]) {
        // Reserves all bytes at once, as the text may be long.
        self.bytes.reserve(text.len() + 32);
        self.number(b'$', text.len() as i64);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Adds the reply for a key without a value.
    pub(crate) fn nothing(&mut self) {
        self.line(b'$', b"-1");
    }

    /// Adds the head of an array; its elements follow.
    pub(crate) fn array(&mut self, elements: usize) {
        self.number(b'*', elements as i64);
    }

    fn number(&mut self, kind: u8, number: i64) {
        self.line(kind, itoa::Buffer::new().format(number).as_bytes());
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }
}
