//! `threads`: a kernel thread for each flow, not bound, which blocks.

use std::{
    io::{self, Read},
    net::TcpStream,
    os::fd::AsFd,
    sync::{Arc, mpsc},
    thread,
};

use daiko_sys::socket;

use super::{
    board::Board,
    flow::{self, Taken},
    method::Method,
};

/// As small as a fiber's.
const STACK: usize = 64 << 10;

pub(super) struct Threads;

impl Method for Threads {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn receive(&self, flows: Vec<TcpStream>, board: &Arc<Board>) -> io::Result<()> {
        let (tell, ends) = mpsc::channel();
        for stream in flows {
            let (board, tell) = (board.clone(), tell.clone());
            let body = move || {
                // Nobody listens any more once another one has failed.
                let _ = tell.send(flow::receive(&stream, &board, |bytes| take(&stream, bytes)));
            };
            thread::Builder::new().stack_size(STACK).spawn(body)?;
        }
        drop(tell);
        ends.iter().collect()
    }
}

/// Two calls for each wake-up, as a fiber makes.
fn take(mut stream: &TcpStream, bytes: &mut [u8]) -> Taken {
    match socket::receive_now(stream.as_fd(), bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((stream.read(bytes)?, true)),
        taken => Ok((taken?, false)),
    }
}
