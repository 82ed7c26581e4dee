//! Clients without a socket.

use std::io::{self, Read, Write};

use super::commands::Database;
use super::serve::{Connection, serve};

/// A client made of functions: its work while the server waits for it, its requests, and the
/// replies to it.
pub(super) struct Peer<A, R, W> {
    pub(super) awaited: A,
    pub(super) sends: R,
    pub(super) gets: W,
}

impl<A: FnMut(), R: FnMut(&mut [u8]) -> usize, W: FnMut(&[u8])> Connection for Peer<A, R, W> {
    fn wait_readable(&mut self) -> io::Result<()> {
        (self.awaited)();
        Ok(())
    }
}

impl<A, R: FnMut(&mut [u8]) -> usize, W> Read for Peer<A, R, W> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok((self.sends)(into))
    }
}

impl<A, R, W: FnMut(&[u8])> Write for Peer<A, R, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.gets)(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends `bytes`, at most `piece` at a time.
pub(super) fn sender(mut bytes: &[u8], piece: usize) -> impl FnMut(&mut [u8]) -> usize {
    move |into| {
        let most = into.len().min(piece);
        bytes.read(&mut into[..most]).unwrap()
    }
}

/// Returns the replies of `server` to `bytes`, if they come in pieces of these lengths, in turn,
/// and then the end.
pub(super) fn ask_cut(server: &Database, mut bytes: &[u8], pieces: &[usize]) -> Vec<u8> {
    let (mut replies, mut pieces) = (Vec::new(), pieces.iter().cycle());
    let sends = |into: &mut [u8]| {
        let most = into.len().min(*pieces.next().unwrap());
        bytes.read(&mut into[..most]).unwrap()
    };
    let gets = |bytes: &[u8]| replies.extend_from_slice(bytes);
    serve(&mut Peer { awaited: || (), sends, gets }, server).unwrap();
    replies
}

/// Returns the replies of `server` to `bytes`.
pub(super) fn ask(server: &Database, bytes: &[u8]) -> Vec<u8> {
    ask_cut(server, bytes, &[usize::MAX])
}

/// Returns the replies of a server that has no keys yet.
pub(super) fn replies(bytes: &[u8]) -> Vec<u8> {
    ask(&Database::new(), bytes)
}

/// Encodes a request as programs send it.
pub(super) fn encoded<'w>(words: impl IntoIterator<Item = &'w [u8]>) -> Vec<u8> {
    let words: Vec<_> = words.into_iter().collect();
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend([format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat());
    }
    bytes
}
