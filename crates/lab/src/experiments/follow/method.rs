//! What receives many flows.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use super::board::Board;

/// Receivers.
#[derive(Clone, Copy)]
pub(super) struct Receiving {
    /// The name in the command line and in results.
    pub(super) name: &'static str,
    /// Receives all of these flows, each by a receiver of its own, until the other side ends; fails
    /// if it cannot begin, or a flow fails.
    pub(super) receive: fn(Vec<TcpStream>, &Arc<Board>) -> io::Result<()>,
}
