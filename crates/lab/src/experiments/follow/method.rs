//! What receives many flows, and which there are.

use std::{io, net::TcpStream, sync::Arc};

use super::board::Board;

/// Receivers.
pub(super) trait Method: Sync {
    /// The name in the command line and in results.
    fn name(&self) -> &'static str;

    /// Receives all of these flows, each by a receiver of its own, until the other side ends.
    ///
    /// # Errors
    /// If it cannot begin, or a flow fails.
    fn receive(&self, flows: Vec<TcpStream>, board: &Arc<Board>) -> io::Result<()>;
}
