//! One connection of the generator: its progress in sending and receiving.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};

use super::super::script::Scripts;
use crate::kit::Failure;
use crate::kit::failure::quoted;

/// A non-blocking connection.
pub(super) struct Connection {
    socket: File,
    sending: ScriptPosition,
    receiving: ScriptPosition,
    /// Scripts that were requested and are not completely sent.
    unsent: usize,
    /// Due times of the scripts without a complete reply, in order.
    due: VecDeque<u64>,
}

/// A script, and the progress in it.
#[derive(Clone, Copy)]
struct ScriptPosition {
    script: usize,
    offset: usize,
}

impl ScriptPosition {
    /// Advances by `bytes` in a text of length `len`. Returns whether that is its end.
    #[inline]
    fn pass(&mut self, bytes: usize, len: usize, scripts: &Scripts) -> bool {
        self.offset += bytes;
        let ended = self.offset == len;
        if ended {
            let next = self.script + 1;
            *self = Self { script: if next == scripts.len() { 0 } else { next }, offset: 0 };
        }
        ended
    }
}

impl Connection {
    /// Connection `index`, which begins with another script than its neighbours.
    pub(super) fn new(socket: File, index: usize, scripts: &Scripts) -> Self {
        let place = ScriptPosition { script: index % scripts.len(), offset: 0 };
        Self { socket, sending: place, receiving: place, unsent: 0, due: VecDeque::new() }
    }

    /// Requests the next script, which was due at `due_ns`.
    #[inline]
    pub(super) fn ask(&mut self, due_ns: u64, scripts: &Scripts) -> Result<(), Failure> {
        self.due.push_back(due_ns);
        self.unsent += 1;
        self.flush(scripts)
    }

    /// Sends as much as the socket takes.
    #[inline]
    pub(super) fn flush(&mut self, scripts: &Scripts) -> Result<(), Failure> {
        while self.unsent > 0 {
            let request = &scripts.get(self.sending.script).request;
            match (&self.socket).write(&request[self.sending.offset..]) {
                Ok(sent) => {
                    let ended = self.sending.pass(sent, request.len(), scripts);
                    self.unsent -= usize::from(ended);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(ended(&error)),
            }
        }
        Ok(())
    }

    /// Receives all available bytes. Passes the due time of each completed script to `answered`.
    #[inline]
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        scripts: &Scripts,
        mut answered: impl FnMut(u64),
    ) -> Result<(), Failure> {
        loop {
            let received = match (&self.socket).read(buffer) {
                Ok(0) => return Err(ended(&io::ErrorKind::UnexpectedEof.into())),
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(ended(&error)),
            };
            self.check(&buffer[..received], scripts, &mut answered)?;
            // A read that returns less than requested has emptied the stream. Later bytes cause
            // another event.
            if received < buffer.len() {
                return Ok(());
            }
        }
    }

    #[inline]
    fn check(
        &mut self,
        mut bytes: &[u8],
        scripts: &Scripts,
        answered: &mut impl FnMut(u64),
    ) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let Some(&due_ns) = self.due.front() else { return Err(wrong(b"", bytes)) };
            let reply = &scripts.get(self.receiving.script).reply;
            let rest = &reply[self.receiving.offset..];
            let (found, behind) = bytes.split_at(rest.len().min(bytes.len()));
            if found != &rest[..found.len()] {
                return Err(wrong(rest, found));
            }
            bytes = behind;
            if self.receiving.pass(found.len(), reply.len(), scripts) {
                self.due.pop_front();
                answered(due_ns);
            }
        }
        Ok(())
    }
}

fn ended(error: &io::Error) -> Failure {
    Failure::Broken(format!("the server has ended a connection: {error}"))
}

/// Error with the received bytes, from the first difference.
fn wrong(expected: &[u8], found: &[u8]) -> Failure {
    let differs = expected.iter().zip(found).position(|(one, other)| one != other);
    let at = differs.unwrap_or(expected.len().min(found.len()));
    let text = |bytes: &[u8]| {
        let shown = &bytes[at..bytes.len().min(at + 40)];
        quoted(&String::from_utf8_lossy(shown))
    };
    Failure::Broken(format!(
        "the server answered wrongly: \"{}\" instead of \"{}\"",
        text(found),
        text(expected)
    ))
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::super::super::script::Language;
    use super::*;

    /// Opens a connection; returns it and the server's end.
    fn connection(scripts: &Scripts) -> (Connection, UnixStream) {
        let (client, server) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        (Connection::new(File::from(OwnedFd::from(client)), 0, scripts), server)
    }

    /// Returns the scripts answered when `pieces` arrive one by one.
    fn answered(
        connection: &mut Connection,
        server: &mut UnixStream,
        scripts: &Scripts,
        pieces: &[&[u8]],
    ) -> Result<Vec<u64>, Failure> {
        let mut due = Vec::new();
        for piece in pieces {
            server.write_all(piece).unwrap();
            connection.receive(&mut [0; 50], scripts, |due_ns| due.push(due_ns))?;
        }
        Ok(due)
    }

    #[test]
    fn scripts_are_sent_and_answered_in_turn() {
        let scripts = Scripts::new(Language::Resp { writes: 10 }, 1);
        let (mut connection, mut server) = connection(&scripts);
        (0..3).for_each(|due| connection.ask(due, &scripts).unwrap());
        let requests: Vec<u8> = (0..3).flat_map(|at| scripts.get(at).request.to_vec()).collect();
        let mut sent = vec![0; requests.len()];
        server.read_exact(&mut sent).unwrap();
        assert!(sent == requests);
        // The pieces end anywhere.
        let replies: Vec<u8> = (0..3).flat_map(|at| scripts.get(at).reply.to_vec()).collect();
        let (one, other) = replies.split_at(20);
        let due = answered(&mut connection, &mut server, &scripts, &[&one[..3], &one[3..], other]);
        assert_eq!(due, Ok(vec![0, 1, 2]));
    }

    #[test]
    fn bytes_that_do_not_fit_are_sent_later() {
        let scripts = Scripts::new(Language::Echo, 16);
        let (mut connection, mut server) = connection(&scripts);
        (0..1000).for_each(|due| connection.ask(due, &scripts).unwrap());
        assert!(connection.unsent > 0, "more than a socket takes");
        let (mut answered, mut buffer) = (0, [0; 10_000]);
        while answered < 1000 {
            let read = server.read(&mut buffer).unwrap();
            server.write_all(&buffer[..read]).unwrap();
            connection.receive(&mut [0; 20_000], &scripts, |_| answered += 1).unwrap();
            connection.flush(&scripts).unwrap();
        }
        assert_eq!(connection.unsent, 0);
    }

    #[test]
    fn a_wrong_answer_is_told_from_where_it_differs() {
        let scripts = Scripts::new(Language::Resp { writes: 10 }, 1);
        let (mut connection, mut server) = connection(&scripts);
        connection.ask(0, &scripts).unwrap();
        let failure = answered(&mut connection, &mut server, &scripts, &[b"+O", b"h no\r\n"]);
        let expected = "the server answered wrongly: \"h n\" instead of \"K\"";
        assert_eq!(failure.unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_reply_to_another_request_is_refused() {
        for language in [Language::Echo, Language::Resp { writes: 10 }] {
            let scripts = Scripts::new(language, 1);
            let (mut connection, mut server) = connection(&scripts);
            connection.ask(0, &scripts).unwrap();
            let next = &scripts.get(1).reply;
            assert!(answered(&mut connection, &mut server, &scripts, &[next]).is_err());
        }
    }

    #[test]
    fn more_than_was_asked_for_is_wrong() {
        let scripts = Scripts::new(Language::Resp { writes: 10 }, 1);
        let (mut connection, mut server) = connection(&scripts);
        connection.ask(0, &scripts).unwrap();
        let (first, second) = (&scripts.get(0).reply[..], &scripts.get(1).reply[..]);
        let failure =
            answered(&mut connection, &mut server, &scripts, &[&[first, second].concat()]);
        assert!(failure.is_err());
    }

    #[test]
    fn a_server_that_closes_is_told() {
        let scripts = Scripts::new(Language::Echo, 1);
        let (mut connection, server) = connection(&scripts);
        drop(server);
        let failure = connection.receive(&mut [0; 50], &scripts, |_| ()).unwrap_err().to_string();
        assert!(failure.starts_with("the server has ended a connection"), "{failure}");
    }
}
