//! `redis`: GET of a value as long as a message, from a `redis-server` with a socket of its own
//! that writes nothing to disk.

use std::convert::Infallible;
use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::client::{Calls, answer};
use super::method::{IpcSpec, Link};
use crate::kit::redis::{become_server, command, installed, quiet, string};
use crate::kit::{Failure, Skip, host};

/// Longest time for the server to start.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between attempts to connect.
const LOOK: Duration = Duration::from_millis(1);

pub(super) struct Redis {
    /// Folder of its socket.
    folder: TempDir,
    /// Arguments of the server, beginning with its name. They are built before the fork, because
    /// `Command` could then wait for a lock that a thread of the parent held.
    arguments: Vec<CString>,
}

impl Redis {
    fn socket(&self) -> PathBuf {
        socket_in(&self.folder)
    }

    /// Connects once the server has started.
    fn connect(&self) -> io::Result<UnixStream> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match UnixStream::connect(self.socket()) {
                Err(_) if Instant::now() < deadline => thread::sleep(LOOK),
                result => return result,
            }
        }
    }
}

impl Link for Redis {
    const NAME: &'static str = "redis";

    fn supports() -> Result<(), Skip> {
        installed()
    }

    fn open(_spec: &IpcSpec) -> Result<Self, Failure> {
        let folder = host::temporary_folder()?;
        let arguments = arguments(&folder);
        Ok(Self { folder, arguments })
    }

    /// Becomes the server.
    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        become_server(&self.arguments)
    }

    /// The stored value is constant, so it is checked here. The answer that `calls` expects from
    /// other servers is then filled in.
    fn ask<const WORDS: usize>(&self, client: usize, calls: Calls<'_, WORDS>) -> io::Result<()> {
        let mut server = self.connect()?;
        let value: Vec<u8> = (0..WORDS * 8).map(|index| (client + index) as u8).collect();
        let key = format!("client {client}");
        let (set, ok) = (command(&[b"SET", key.as_bytes(), &value]), b"+OK\r\n");
        let (get, found) = (command(&[b"GET", key.as_bytes()]), string(&value));
        let mut reply = vec![0; found.len().max(ok.len())];
        demand(&mut server, &set, ok, &mut reply)?;
        calls.make(|message| {
            demand(&mut server, &get, &found, &mut reply)?;
            answer(message);
            Ok(())
        })
    }
}

fn socket_in(folder: &TempDir) -> PathBuf {
    folder.path().join("socket")
}

fn arguments(folder: &TempDir) -> Vec<CString> {
    let socket = socket_in(folder).into_os_string().into_encoded_bytes();
    quiet([b"--port".as_slice(), b"0", b"--unixsocket", &socket])
}

/// Sends `command`, and accepts no reply except `expected`, which fits into `reply`.
fn demand(
    server: &mut UnixStream,
    command: &[u8],
    expected: &[u8],
    reply: &mut [u8],
) -> io::Result<()> {
    server.write_all(command)?;
    let mut rest = expected;
    while !rest.is_empty() {
        let count = server.read(reply)?;
        // A different reply may also be shorter; waiting for more bytes would then take forever.
        match rest.split_at_checked(count) {
            Some((next, behind)) if count > 0 && reply[..count] == *next => rest = behind,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_may_come_in_pieces() {
        let (mut client, mut server) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                for piece in [&b"$2\r"[..], b"\nab", b"\r\n"] {
                    server.write_all(piece).unwrap();
                }
            });
            demand(&mut client, b"", b"$2\r\nab\r\n", &mut [0; 80]).unwrap();
        });
    }

    #[test]
    fn a_wrong_reply_is_refused_at_any_length() {
        for reply in
            [&b"-ERR no\r\n"[..], b"$-1\r\n", b"$2\r\nax\r\n", b"$2\r\nab\r\nmore", b"$2\r\n"]
        {
            let (mut client, mut server) = UnixStream::pair().unwrap();
            server.write_all(reply).unwrap();
            drop(server);
            // The stream is closed, and nothing was sent.
            let error = demand(&mut client, b"", b"$2\r\nab\r\n", &mut [0; 80]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{reply:?}");
        }
    }
}
