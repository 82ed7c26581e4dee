//! The interface of a method.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use super::client::Calls;
use super::outcome::IpcOutcome;
use crate::kit::{Failure, Skip};

/// Lengths of messages in bytes. The longest fills a pipe.
pub(super) const BYTES: [usize; 4] = [8, 64, 1024, 65536];

/// The method that is left out of builds without its feature.
pub(super) const ICEORYX2: &str = "iceoryx2";

/// Parameters of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct IpcSpec {
    /// Number of client processes, at least 1.
    pub(super) clients: usize,
    /// Bytes of a question, and of its answer.
    pub(super) bytes: usize,
    /// The server's CPU.
    pub(super) server_cpu: usize,
    /// The CPU of all clients.
    pub(super) client_cpu: usize,
    /// How long the clients ask in batches, and then again one by one.
    pub(super) window: Duration,
}

impl IpcSpec {
    /// Returns true if the server and the clients share a CPU.
    pub(super) fn shares_cpu(&self) -> bool {
        self.server_cpu == self.client_cpu
    }
}

/// A mechanism by which client processes ask a server process.
#[derive(Clone, Copy)]
pub(super) struct Mechanism {
    /// Name in the command line and in results.
    pub(super) name: &'static str,
    /// Checks quickly that all requirements are installed. Otherwise returns the missing one and
    /// its remedy, in one line.
    pub(super) supports: fn() -> Result<(), Skip>,
    /// Runs the clients until the windows are over. Fails with one line for the user if a process
    /// ended early or an answer was wrong.
    pub(super) run: fn(&IpcSpec) -> Result<IpcOutcome, Failure>,
}

/// State common to the clients and the server of a method, created before they are forked.
///
/// A message has `WORDS` words. The answer to a question is each of its words plus 1 ([`answer`]),
/// so that no client mistakes its own question for the answer.
pub(super) trait Link: Sized {
    /// Name in the command line and in results.
    const NAME: &'static str;

    /// Like [`Mechanism::supports`].
    fn supports() -> Result<(), Skip> {
        Ok(())
    }

    /// Creates it for the clients of `spec`.
    ///
    /// # Errors
    /// Fails if the system refuses.
    fn open(spec: &IpcSpec) -> Result<Self, Failure>;

    /// Body of the server's process: answers all questions until it is killed.
    ///
    /// # Errors
    /// Fails if it cannot continue.
    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible>;

    /// Body of the process of client `client`, counted from 0: prepares its own state, and makes
    /// `calls` by a function that replaces the question by the answer.
    ///
    /// # Errors
    /// Fails if it cannot continue.
    fn ask<const WORDS: usize>(&self, client: usize, calls: Calls<'_, WORDS>) -> io::Result<()>;
}
