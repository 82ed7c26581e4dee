//! A server in a process of its own, which ends together with this process.

use std::convert::Infallible;
use std::fs::File;
use std::time::{Duration, Instant};
use std::{env, io, thread};

use tempfile::TempDir;

use super::address::{Address, Socket};
use crate::kit::{Failure, Fork, OrFailure, free_memory, host};

/// Longest time for the server to start.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between attempts to connect.
const LOOK: Duration = Duration::from_millis(1);

pub(super) struct Server {
    pub(super) process: Fork,
    address: Address,
    /// Its current folder, with its socket if that has a path, and its log.
    _folder: TempDir,
}

impl Server {
    /// Starts a server: a process that calls `serve` in a temporary folder of its own.
    ///
    /// # Errors
    /// Fails if there is no process, folder or port left for it.
    pub(super) fn start(
        socket: Socket,
        serve: &dyn Fn(&Address) -> io::Result<Infallible>,
    ) -> Result<Self, Failure> {
        let folder = host::temporary_folder()?;
        let address = Address::free(socket, folder.path()).or_limit("cannot start a server")?;
        let serve = || env::set_current_dir(&folder).and_then(|()| serve(&address));
        let process = Fork::start("a server", serve)?;
        Ok(Self { process, address, _folder: folder })
    }

    /// Connects once the server has started.
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

    /// Resident bytes of the server, plus those of its page tables.
    ///
    /// # Errors
    /// Fails if `/proc` does not provide them.
    pub(super) fn resident_bytes(&self) -> Result<u64, Failure> {
        free_memory::resident_bytes(self.process.pid())
    }
}

/// Whether `error` may mean that the server has not started yet.
fn may_begin(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}
