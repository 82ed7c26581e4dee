//! `threads`: a kernel thread for each flow, not bound, which blocks.

use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;

use daiko_sys::socket;

use super::board::Board;
use super::flow::{Taken, receive_each};
use super::method::Receiving;

/// As small as a fiber's.
const STACK: usize = 64 << 10;

pub(super) const METHOD: Receiving = Receiving { name: "threads", receive };

fn receive(flows: Vec<TcpStream>, board: &Arc<Board>) -> io::Result<()> {
    let spawn = |body| thread::Builder::new().stack_size(STACK).spawn(body).map(drop);
    receive_each(flows, board, take, spawn)
}

/// Two calls for each wake-up, as a fiber makes.
fn take(mut stream: &TcpStream, bytes: &mut [u8]) -> Taken {
    match socket::receive_now(stream.as_fd(), bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((stream.read(bytes)?, true)),
        taken => Ok((taken?, false)),
    }
}
