//! `daiko-pinned`, `daiko-migratable` and `daiko-follow`: a fiber for each flow, on as many workers
//! as there are CPUs.

use std::{io, net::TcpStream, os::fd::AsFd, sync::Arc};

use daiko::{Builder, Placement, Preset, Runtime, net::Async};
use daiko_sys::socket;

use super::{
    board::Board,
    flow::{Taken, receive_each},
    method::Receiving,
};

/// By where a fiber goes on that has waited: where it was started, always; where the worker has
/// time for it that sees the packet, or where it was; likewise, but that it stays where it has
/// moved to until a packet was processed there.
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
    // Whose agents park at once: CPU time is that of wake-ups, and senders do not wait for who
    // polls on their CPU.
    let builder = Runtime::builder().preset(Preset::Power).placement(placement);
    let runtime = builder.build().map_err(io::Error::other)?;
    let flows = flows.into_iter().map(Async::new).collect::<io::Result<Vec<_>>>()?;
    let spawn = |body| runtime.spawn_with(fiber(), body).map(drop).map_err(io::Error::other);
    receive_each(flows, board, take, spawn)
}

/// A fiber that never moves. Fibers are spread over the workers at first.
fn pinned() -> Builder {
    Builder::new().spread()
}

fn migratable() -> Builder {
    // SAFETY: what it runs keeps nothing in thread-local storage across a wait for its socket:
    // numbers in its frame, and words in shared memory.
    unsafe { pinned().migratable() }
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
