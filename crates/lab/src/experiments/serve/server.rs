//! A server in a process of its own, which ends with this.

use std::fs::File;
use std::time::{Duration, Instant};
use std::{io, thread};

use tempfile::TempDir;

use super::address::{Address, Socket};
use super::method::ServerMethod;
use crate::kit::{Failure, Fork, OrFailure, free_memory, host};

/// How long it may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between looks whether it has begun.
const LOOK: Duration = Duration::from_millis(1);

pub(super) struct Server {
    pub(super) process: Fork,
    address: Address,
    /// Where its socket is, if it has a path.
    _folder: TempDir,
}

impl Server {
    /// Starts the server of `method` on `cpu`, for so many connections.
    ///
    /// # Errors
    /// If there is no process, folder or port left for it.
    pub(super) fn start(
        method: ServerMethod,
        socket: Socket,
        connections: usize,
        cpu: usize,
    ) -> Result<Self, Failure> {
        let folder = host::temporary_folder()?;
        let address = Address::free(socket, folder.path()).or_limit("cannot start a server")?;
        let serve = || host::bind(cpu).and_then(|()| (method.serve)(&address, connections));
        let process = Fork::start("a server", serve)?;
        Ok(Self { process, address, _folder: folder })
    }

    /// A connection, once the server has begun.
    pub(super) fn connect(&self, is_non_blocking: bool) -> Result<File, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.address.connect(is_non_blocking) {
                Ok(stream) => return Ok(stream),
                Err(error) if !may_begin(&error) || Instant::now() > deadline => {
                    return Err(Failure::Limit(format!("cannot connect: {error}")));
                }
                Err(_) if self.process.complaint().is_some() => {
                    return Err(Failure::Broken("the server did not begin".into()));
                }
                Err(_) => thread::sleep(LOOK),
            }
        }
    }

    /// Its bytes that are resident, and those of its page tables.
    ///
    /// # Errors
    /// If `/proc` does not tell.
    pub(super) fn resident_bytes(&self) -> Result<u64, Failure> {
        free_memory::resident_bytes(self.process.pid())
    }
}

/// Whether the server has not begun yet, as far as `error` tells.
fn may_begin(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}
