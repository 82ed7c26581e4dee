//! A server in a process of its own, which ends together with this process.

use std::convert::Infallible;
use std::fs::File;
use std::time::{Duration, Instant};
use std::{env, io, thread};

use tempfile::TempDir;

use super::address::{Address, Socket};
use super::children::Fork;
use super::failure::{Failure, OrFailure};
use super::{free_memory, host};

/// Longest time for the server to start.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between attempts to connect.
const LOOK: Duration = Duration::from_millis(1);

pub(crate) struct Server {
    pub(crate) process: Fork,
    address: Address,
    /// Its current folder, with its socket if that has a path, and its log.
    _folder: TempDir,
}

impl Server {
    /// Starts a server: a process that calls `serve` in a temporary folder of its own.
    ///
    /// # Errors
    /// Fails if there is no process, folder or port left for it.
    pub(crate) fn start(
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
    pub(crate) fn connect(&self, is_non_blocking: bool) -> Result<File, Failure> {
        let has_ended = || self.process.complaint().is_some();
        connect_once_started(&self.address, is_non_blocking, has_ended)
    }

    /// Resident bytes of the server, plus those of its page tables.
    ///
    /// # Errors
    /// Fails if `/proc` does not provide them.
    pub(crate) fn resident_bytes(&self) -> Result<u64, Failure> {
        free_memory::resident_bytes(self.process.pid())
    }
}

/// Connects to a server once it has started, unless it has ended.
pub(crate) fn connect_once_started(
    address: &Address,
    is_non_blocking: bool,
    has_ended: impl Fn() -> bool,
) -> Result<File, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match address.connect(is_non_blocking) {
            Ok(stream) => return Ok(stream),
            Err(error) if !may_begin(&error) || Instant::now() > deadline => {
                return Err(Failure::Limit(format!("cannot connect: {error}")));
            }
            Err(_) if has_ended() => {
                return Err(Failure::Broken("the server did not begin".into()));
            }
            Err(_) => thread::sleep(LOOK),
        }
    }
}

/// Whether `error` may mean that the server has not started yet.
fn may_begin(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}
