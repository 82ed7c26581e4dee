//! What a server has to offer, and which there are.

use std::{convert::Infallible, io};

use super::{
    address::Address, echo_daiko::EchoDaiko, echo_threads::EchoThreads, echo_tokio::EchoTokio,
    kv::Kv, redis::Redis, script::Language,
};
use crate::kit::Skip;

/// The methods, in the order of tables. Another one is added here.
pub(super) const METHODS: [&dyn Method; 9] = [
    &Kv,
    &Redis,
    &EchoDaiko::BY_ITSELF,
    &EchoDaiko::EPOLL,
    &EchoDaiko::RING,
    &EchoDaiko::INTERRUPTING,
    &EchoTokio::Threads,
    &EchoTokio::SingleThread,
    &EchoThreads,
];

/// A server.
pub(super) trait Method: Sync {
    /// The name in the command line and in results.
    fn name(&self) -> &'static str;

    /// What it is asked, and answers.
    fn language(&self) -> Language;

    /// Whether it can be tried with so many connections; quick.
    ///
    /// # Errors
    /// What is missing, in one line with the remedy.
    fn supports(&self, connections: usize) -> Result<(), Skip>;

    /// The server's process, pinned to its CPU: listens at `address`, and answers until it is killed.
    ///
    /// There will be at most `connections` at once, and some more to see that it listens.
    ///
    /// # Errors
    /// If it cannot go on.
    fn serve(&self, address: &Address, connections: usize) -> io::Result<Infallible>;
}
