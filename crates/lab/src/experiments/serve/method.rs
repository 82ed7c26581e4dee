//! What a server has to offer, and which there are.

use std::{convert::Infallible, io};

use super::{address::Address, script::Language};
use crate::kit::Skip;

/// A server.
pub(super) trait Method: Sync {
    /// The name in the command line and in results.
    fn name(&self) -> &'static str;

    /// What it is asked, and answers.
    fn language(&self) -> Language {
        Language::Echo
    }

    /// Whether it can be tried with so many `_connections`; quick.
    ///
    /// # Errors
    /// What is missing, in one line with the remedy.
    fn supports(&self, _connections: usize) -> Result<(), Skip> {
        Ok(())
    }

    /// The server's process, pinned to its CPU: listens at `address`, and answers until it is killed.
    ///
    /// There will be at most `connections` at once, and some more to see that it listens.
    ///
    /// # Errors
    /// If it cannot go on.
    fn serve(&self, address: &Address, connections: usize) -> io::Result<Infallible>;
}
