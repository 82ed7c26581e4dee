//! The interface of a server.

use std::convert::Infallible;
use std::io;

use super::kv::Fsync;
use super::script::Language;
use crate::kit::Skip;
use crate::kit::address::Address;

/// Body of the process of a store with a log.
pub(super) type ServeLogged = fn(&Address, usize, Fsync) -> io::Result<Infallible>;

/// A server.
#[derive(Clone, Copy)]
pub(super) struct ServerMethod {
    /// Name in the command line and in results.
    pub(super) name: &'static str,
    /// Language of its requests and replies.
    pub(super) language: Language,
    /// Checks quickly that it can be tried with this many connections. Otherwise returns the
    /// missing requirement and its remedy, in one line.
    pub(super) supports: fn(usize) -> Result<(), Skip>,
    /// Body of the server's process, which is pinned to its CPU: listens at the address, and
    /// answers until it is killed or cannot continue. The second argument is the largest number of
    /// connections at once, apart from some that check whether it listens.
    pub(super) serve: fn(&Address, usize) -> io::Result<Infallible>,
    /// The same for a store that writes each change to a log in the current folder.
    pub(super) serve_logged: Option<ServeLogged>,
}

impl ServerMethod {
    /// An echo that can be tried anywhere.
    pub(super) const fn echo(
        name: &'static str,
        serve: fn(&Address, usize) -> io::Result<Infallible>,
    ) -> Self {
        Self { name, language: Language::Echo, supports: |_| Ok(()), serve, serve_logged: None }
    }
}
