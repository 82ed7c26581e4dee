//! The interface of a method that receives many flows.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use super::board::Board;

/// A kind of receivers.
#[derive(Clone, Copy)]
pub(super) struct Receiving {
    /// Name in the command line and in results.
    pub(super) name: &'static str,
    /// Receives all of these flows, each by its own receiver, until the senders close them. Fails
    /// if it cannot begin, or if a flow fails.
    pub(super) receive: fn(Vec<TcpStream>, &Arc<Board>) -> io::Result<()>,
}
