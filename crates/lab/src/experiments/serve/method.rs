//! What a server has to offer.

use std::convert::Infallible;
use std::io;

use super::address::Address;
use super::script::Language;
use crate::kit::Skip;

/// A server.
#[derive(Clone, Copy)]
pub(super) struct ServerMethod {
    /// The name in the command line and in results.
    pub(super) name: &'static str,
    /// What it is asked, and answers.
    pub(super) language: Language,
    /// Whether it can be tried with so many connections, quickly; else what is missing, in one line
    /// with the remedy.
    pub(super) supports: fn(usize) -> Result<(), Skip>,
    /// The server's process, pinned to its CPU: listens at the address, and answers until it is
    /// killed or cannot go on. There will be at most so many connections at once, and some more to
    /// see that it listens.
    pub(super) serve: fn(&Address, usize) -> io::Result<Infallible>,
}

impl ServerMethod {
    /// An echo that can be tried anywhere.
    pub(super) const fn echo(
        name: &'static str,
        serve: fn(&Address, usize) -> io::Result<Infallible>,
    ) -> Self {
        Self { name, language: Language::Echo, supports: |_| Ok(()), serve }
    }
}
