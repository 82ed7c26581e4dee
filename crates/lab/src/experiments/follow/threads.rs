//! `threads`: one kernel thread per flow, not bound, with blocking reads.

use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;

use daiko_sys::socket;

use super::board::Board;
use super::flow::{Taken, receive_each};
use super::method::Receiving;

/// Stack size, as small as a fiber's.
const STACK: usize = 64 << 10;

pub(super) const METHOD: Receiving = Receiving { name: "threads", receive };

fn receive(flows: Vec<TcpStream>, board: &Arc<Board>) -> io::Result<()> {
    let spawn = |body| thread::Builder::new().stack_size(STACK).spawn(body).map(drop);
    receive_each(flows, board, take, spawn)
}

/// Makes two calls per wake-up, as a fiber does.
fn take(mut stream: &TcpStream, bytes: &mut [u8]) -> Taken {
    match socket::receive_now(stream.as_fd(), bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((stream.read(bytes)?, true)),
        taken => Ok((taken?, false)),
    }
}
