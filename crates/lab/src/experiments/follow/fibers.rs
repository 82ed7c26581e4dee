//! `daiko-pinned`, `daiko-mover` and `daiko-follow`: a fiber for each flow, on as many workers as there are CPUs.

use std::{
    io,
    net::TcpStream,
    os::fd::AsFd,
    sync::{Arc, mpsc},
};

use daiko::{Builder, Placement, Preset, Runtime, RuntimeBuilder, net::Async};
use daiko_sys::socket;

use super::{
    board::Board,
    flow::{self, Taken},
    method::Method,
};

/// Where a fiber goes on that has waited.
pub(super) enum Fibers {
    /// Where it was started, always.
    Pinned,
    /// Where the worker has time for it that sees the packet, or where it was.
    Mover,
    /// As a mover, but that it stays where it has moved to until a packet was processed there.
    Follow,
}

impl Method for Fibers {
    fn name(&self) -> &'static str {
        match self {
            Self::Pinned => "daiko-pinned",
            Self::Mover => "daiko-mover",
            Self::Follow => "daiko-follow",
        }
    }

    fn receive(&self, flows: Vec<TcpStream>, board: &Arc<Board>) -> io::Result<()> {
        let runtime = self.runtime().build().map_err(io::Error::other)?;
        let (tell, ends) = mpsc::channel();
        for stream in flows {
            let (board, tell, stream) = (board.clone(), tell.clone(), Async::new(stream)?);
            let body = move || {
                // Nobody listens any more once another one has failed.
                let _ = tell.send(flow::receive(&stream, &board, |bytes| take(&stream, bytes)));
            };
            runtime.spawn_with(self.fiber(), body).map_err(io::Error::other)?;
        }
        drop(tell);
        ends.iter().collect()
    }
}

impl Fibers {
    fn runtime(&self) -> RuntimeBuilder {
        let placement = match self {
            Self::Pinned | Self::Mover => Placement::Default,
            Self::Follow => Placement::Follow,
        };
        // Whose agents park at once: CPU time is that of wake-ups, and senders do not wait for who polls on their CPU.
        Runtime::builder().preset(Preset::Power).placement(placement)
    }

    /// Spread over the workers at first.
    fn fiber(&self) -> Builder {
        let builder = Builder::new().spread();
        match self {
            Self::Pinned => builder,
            // SAFETY: what it runs keeps nothing in thread-local storage across a wait for its socket: numbers in its frame,
            // and words in shared memory.
            Self::Mover | Self::Follow => unsafe { builder.mover() },
        }
    }
}

fn take(stream: &Async<TcpStream>, bytes: &mut [u8]) -> Taken {
    let mut waited = false;
    let taken = stream.read_with(|stream| {
        let taken = socket::receive_now(stream.as_fd(), bytes);
        waited |= taken.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        taken
    })?;
    Ok((taken, waited))
}
