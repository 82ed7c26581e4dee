//! Sessions over TCP, as the load sees them: non-blocking connections, in one thread that never
//! sleeps.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};

use super::load::Transport;
use super::parts::mix::Mix;
use super::parts::request::{MOST_REPLY_BYTES, Reply};
use super::served::SessionServer;
use super::setup::{SCALE, SEED};
use super::threads::session::frame;
use crate::kit::epoll::Epoll;
use crate::kit::{Failure, OrFailure};

/// Connections that are handled at a time.
const MOST_AT_ONCE: usize = 64;
/// Connections that are opened before the server must have answered on the last of them: fewer
/// than its backlog.
const BACKLOG: usize = 100;
const CHANGES: i32 = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
const REFUSED: &str = "the kernel does not watch connections";

pub(super) struct TcpSessions {
    sessions: Vec<TcpSession>,
    epoll: Epoll,
    buffer: Box<[u8]>,
}

struct TcpSession {
    socket: File,
    mix: Mix,
    /// The begin of a reply.
    part: Vec<u8>,
    request: Vec<u8>,
}

impl TcpSessions {
    /// Connects to a server, and waits for an answer on each connection.
    pub(super) fn connect(server: &SessionServer, sessions: usize) -> Result<Self, Failure> {
        let epoll = Epoll::new(MOST_AT_ONCE).or_limit(REFUSED)?;
        let buffer = vec![0; 16 << 10].into();
        let mut all = Self { sessions: Vec::new(), epoll, buffer };
        while all.sessions.len() < sessions {
            let first = all.sessions.len();
            for session in first..sessions.min(first + BACKLOG) {
                let socket = server.connect()?;
                all.epoll.add(&socket, CHANGES, session).or_limit(REFUSED)?;
                let mix = Mix::new(SEED, session, SCALE);
                let (part, request) = (Vec::new(), Vec::new());
                all.sessions.push(TcpSession { socket, mix, part, request });
            }
            let asked = all.sessions.len() - first;
            (first..first + asked).try_for_each(|session| all.ask(session))?;
            let mut answered = Vec::new();
            while answered.len() < asked {
                all.look(&mut answered)?;
                server.check_lives()?;
            }
        }
        Ok(all)
    }
}

impl Transport for TcpSessions {
    fn len(&self) -> usize {
        self.sessions.len()
    }

    fn ask(&mut self, session: usize) -> Result<(), Failure> {
        let TcpSession { socket, mix, request, .. } = &mut self.sessions[session];
        request.clear();
        frame(request, |bytes| mix.next().1.encode(bytes));
        // Requests are short, and few are under way: the kernel has room for them.
        socket.write_all(request).or_broken("a request cannot be sent")
    }

    fn look(&mut self, answered: &mut Vec<usize>) -> Result<(), Failure> {
        let Self { sessions, epoll, buffer } = self;
        for session in epoll.wait(0).or_limit(REFUSED)? {
            let replies = sessions[session].receive(buffer)?;
            answered.extend(std::iter::repeat_n(session, replies));
        }
        Ok(())
    }
}

impl TcpSession {
    /// Receives all that has come, and returns the number of replies.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let mut replies = 0;
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Err(Failure::Broken("the server has ended a connection".into())),
                Ok(bytes) => {
                    self.part.extend_from_slice(&buffer[..bytes]);
                    replies += self.take_replies()?;
                    if bytes < buffer.len() {
                        return Ok(replies);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(replies),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::Broken(format!("a connection: {error}"))),
            }
        }
    }

    /// Takes the replies that have come as a whole, and returns their number.
    fn take_replies(&mut self) -> Result<usize, Failure> {
        let (mut rest, mut replies) = (&self.part[..], 0);
        while let Some((length, behind)) = rest.split_first_chunk() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > MOST_REPLY_BYTES {
                return Err(Failure::Broken("the server sends no replies".into()));
            }
            let Some((reply, behind)) = behind.split_at_checked(length) else { break };
            match Reply::decode(reply) {
                Some(Reply::Failed(reason)) => return Err(Failure::Broken(reason)),
                Some(_) => replies += 1,
                None => return Err(Failure::Broken("a reply cannot be read".into())),
            }
            rest = behind;
        }
        let taken = self.part.len() - rest.len();
        self.part.drain(..taken);
        Ok(replies)
    }
}
