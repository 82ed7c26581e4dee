//! The server of the example `kv`: the replies to a request do not depend on the pieces in which it
//! arrives, and they are well-formed.

#![allow(dead_code, reason = "the server has no log here")]

use std::io::{self, Read, Write};

use commands::Database;
use serve::{Connection, serve};

#[path = "../../../crates/daiko/examples/kv/buffers.rs"]
mod buffers;
#[path = "../../../crates/daiko/examples/kv/commands.rs"]
mod commands;
#[path = "../../../crates/daiko/examples/kv/contents.rs"]
pub(super) mod contents;
#[path = "../../../crates/daiko/examples/log/file.rs"]
mod file;
#[path = "../../../crates/daiko/examples/log/log.rs"]
mod log;
#[path = "../../../crates/daiko/examples/log/platform.rs"]
mod platform;
#[path = "../../../crates/daiko/examples/log/record.rs"]
pub(super) mod record;
#[path = "../../../crates/daiko/examples/log/replay.rs"]
pub(super) mod replay;
#[path = "../../../crates/daiko/examples/kv/resp.rs"]
#[allow(clippy::module_inception, reason = "its name in the example")]
mod resp;
#[path = "../../../crates/daiko/examples/kv/serve.rs"]
mod serve;
#[path = "../../../crates/daiko/examples/kv/store.rs"]
mod store;
#[path = "../../../crates/daiko/examples/kv/words.rs"]
mod words;

/// The input is two lengths of pieces, and the request bytes.
pub(super) fn fuzz(data: &[u8]) {
    let Some((&[one, other], bytes)) = data.split_first_chunk() else { return };
    let whole = replies(bytes, [usize::MAX; 2]);
    let cut = replies(bytes, [usize::from(one).max(1), usize::from(other).max(1)]);
    assert_eq!(told(&cut), told(&whole));
    let mut rest = &whole[..];
    while !rest.is_empty() {
        rest = behind_reply(rest).expect("a reply");
    }
}

/// The replies of a new server.
fn replies(bytes: &[u8], pieces: [usize; 2]) -> Vec<u8> {
    let mut client = Client { bytes, pieces, replies: Vec::new() };
    serve(&mut client, &Database::new()).expect("a client that lives");
    client.replies
}

/// The lines that do not change over time.
fn told(replies: &[u8]) -> Vec<&[u8]> {
    let lines = replies.split(|byte| *byte == b'\n');
    lines
        .filter(|line| !line.starts_with(b"uptime_in_seconds:") && !line.starts_with(b"$"))
        .collect()
}

/// The bytes behind the first reply.
fn behind_reply(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, rest) = (&bytes[..end], &bytes[end + 2..]);
    let (kind, text) = line.split_first()?;
    let number = || str::from_utf8(text).ok()?.parse::<i64>().ok();
    match kind {
        b'+' | b'-' => (!text.contains(&b'\n')).then_some(rest),
        b':' => number().map(|_| rest),
        b'*' => (0..number()?).try_fold(rest, |rest, _| behind_reply(rest)),
        b'$' if number()? == -1 => Some(rest),
        b'$' => rest.get(number()?.try_into().ok()?..)?.strip_prefix(b"\r\n"),
        _ => None,
    }
}

/// A client that sends its bytes in pieces of two lengths, in turn.
struct Client<'b> {
    bytes: &'b [u8],
    pieces: [usize; 2],
    replies: Vec<u8>,
}

impl Connection for Client<'_> {
    fn wait_readable(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Client<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.pieces.reverse();
        let most = into.len().min(self.pieces[0]);
        self.bytes.read(&mut into[..most])
    }
}

impl Write for Client<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.replies.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
