//! `daiko-pinned`, `daiko-mover` and `daiko-follow`: one fiber per flow, on one worker per
//! CPU.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;

use daiko::net::Async;
use daiko::{Builder, Placement, Preset, Runtime};
use daiko_sys::socket;

use super::board::Board;
use super::flow::{Taken, receive_each};
use super::method::Receiving;

/// Receivers by the place where a fiber continues after a wait. A pinned fiber always continues on
/// its first worker. A migratable fiber continues on the worker that sees the packet if that worker
/// has time, else on its previous worker. A following migratable fiber does the same, but after a
/// move it stays until a packet was processed on its new worker.
pub(super) const METHODS: [Receiving; 3] = [
    Receiving {
        name: "daiko-pinned",
        receive: |flows, board| receive(pinned, Placement::Default, flows, board),
    },
    Receiving {
        name: "daiko-mover",
        receive: |flows, board| receive(migratable, Placement::Default, flows, board),
    },
    Receiving {
        name: "daiko-follow",
        receive: |flows, board| receive(migratable, Placement::Follow, flows, board),
    },
];

fn receive(
    fiber: fn() -> Builder,
    placement: Placement,
    flows: Vec<TcpStream>,
    board: &Arc<Board>,
) -> io::Result<()> {
    // The agents of this preset park at once. CPU time then counts wake-ups only, and senders do
    // not wait for agents that poll on their CPU. A worker has a CPU, as a flow has.
    let builder = Runtime::builder().bind(true).preset(Preset::Power).placement(placement);
    let runtime = builder.build().map_err(io::Error::other)?;
    let flows = flows.into_iter().map(Async::new).collect::<io::Result<Vec<_>>>()?;
    let spawn = |body| runtime.spawn_with(fiber(), body).map(drop).map_err(io::Error::other);
    receive_each(flows, board, take, spawn)
}

/// A fiber that never moves. Fibers are initially spread over the workers. Both kinds borrow
/// thread-locals, so they differ in their moves only.
fn pinned() -> Builder {
    // SAFETY: the receiver uses no thread-local across a wait for its socket. It uses numbers in
    // its frame and words in shared memory only.
    unsafe { Builder::new().spread().borrowed() }
}

fn migratable() -> Builder {
    // SAFETY: as above, nor does it keep anything in thread-local storage across a wait.
    unsafe { Builder::new().spread().borrowed_migratable() }
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
