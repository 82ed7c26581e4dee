//! What a method has to offer, and which there are.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use super::client::Calls;
use super::outcome::Outcome;
use crate::kit::{Failure, Skip};

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    /// Client processes, at least 1.
    pub(super) clients: usize,
    /// Length of a question, and of its answer.
    pub(super) bytes: usize,
    /// The server's CPU.
    pub(super) server_cpu: usize,
    /// That of all clients.
    pub(super) client_cpu: usize,
    /// How long the clients ask in batches, and then once more one by one.
    pub(super) window: Duration,
}

/// A mechanism by which client processes ask a server process.
#[derive(Clone, Copy)]
pub(super) struct Mechanism {
    /// The name in the command line and in results.
    pub(super) name: &'static str,
    /// Whether what it needs is installed, quickly; else what is missing, in one line with the
    /// remedy.
    pub(super) supports: fn() -> Result<(), Skip>,
    /// Has the clients ask, until the windows are over. Fails with one line for the user, if a
    /// process ended early or was answered wrongly.
    pub(super) run: fn(&Spec) -> Result<Outcome, Failure>,
}

/// What the clients and the server of a method have in common: made before they are forked.
///
/// A message is `WORDS` words. The answer to a question is each of its words and 1 ([`answer`]), so
/// that nobody takes his own question for it.
pub(super) trait Link: Sized {
    /// The name in the command line and in results.
    const NAME: &'static str;

    /// As [`Mechanism::supports`].
    fn supports() -> Result<(), Skip> {
        Ok(())
    }

    /// Makes it for so many clients.
    ///
    /// # Errors
    /// If the system refuses.
    fn open(clients: usize) -> Result<Self, Failure>;

    /// The server's process: answers whoever asks, until it is killed.
    ///
    /// # Errors
    /// If it cannot go on.
    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible>;

    /// The process of client `client`, counted from 0: prepares what it has for itself, and asks
    /// `questions` by a function that puts the answer in place of the question.
    ///
    /// # Errors
    /// If it cannot go on.
    fn ask<const WORDS: usize>(&self, client: usize, calls: Calls<'_, WORDS>) -> io::Result<()>;
}
