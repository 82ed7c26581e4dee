//! What receives many flows, and which there are.

use std::{io, net::TcpStream, sync::Arc};

use super::{board::Board, fibers::Fibers, threads::Threads};
use crate::kit::Skip;

/// The methods, in the order of tables. Another one is added here.
pub(super) const METHODS: [&dyn Method; 4] =
    [&Threads, &Fibers::Pinned, &Fibers::Mover, &Fibers::Follow];

/// Receivers.
pub(super) trait Method: Sync {
    /// The name in the command line and in results.
    fn name(&self) -> &'static str;

    /// Whether it can be tried; quick.
    ///
    /// # Errors
    /// What is missing, in one line with the remedy.
    fn supports(&self) -> Result<(), Skip>;

    /// Receives all of these flows, each by a receiver of its own, until the other side ends.
    ///
    /// # Errors
    /// If it cannot begin, or a flow fails.
    fn receive(&self, flows: Vec<TcpStream>, board: &Arc<Board>) -> io::Result<()>;
}
