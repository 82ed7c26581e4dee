//! A server in a process of its own, which ends with this.

use std::{
    fs, io, thread,
    time::{Duration, Instant},
};

use daiko_sys::{clock, limits};
use tempfile::TempDir;

use super::{
    address::{Address, Socket, Stream},
    method::Method,
};
use crate::kit::{Complaint, Failure, Processes, Shared, host};

/// How long it may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between looks whether it has begun.
const LOOK: Duration = Duration::from_millis(1);

pub(super) struct Server {
    pid: u32,
    address: Address,
    complaint: Shared<Complaint>,
    /// The server alone, which is killed with it.
    _process: Processes,
    /// Where its socket is, if it has a path.
    _folder: TempDir,
}

impl Server {
    /// Starts the server of `method` on `cpu`, for so many connections.
    ///
    /// # Errors
    /// If there is no process, folder or port left for it.
    pub(super) fn start(
        method: &dyn Method,
        socket: Socket,
        connections: usize,
        cpu: usize,
    ) -> Result<Self, Failure> {
        let refused = |error| Failure::Limit(format!("cannot start a server: {error}"));
        let folder = tempfile::tempdir().map_err(refused)?;
        let address = Address::free(socket, folder.path()).map_err(refused)?;
        let complaint = Shared::<Complaint>::new(1)?;
        let mut process = Processes::default();
        let serve = || host::bind(cpu).and_then(|()| method.serve(&address, connections));
        let pid = process.fork(|| complaint[0].note(serve())).map_err(refused)?;
        Ok(Self { pid, address, complaint, _process: process, _folder: folder })
    }

    /// A connection, once the server has begun.
    pub(super) fn connect(&self) -> Result<Stream, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.address.connect() {
                Ok(stream) => return Ok(stream),
                Err(error) if !may_begin(&error) || Instant::now() > deadline => {
                    return Err(Failure::Limit(format!("cannot connect: {error}")));
                }
                Err(_) if self.complaint[0].get().is_some() => {
                    return Err(Failure::Broken("the server did not begin".into()));
                }
                Err(_) => thread::sleep(LOOK),
            }
        }
    }

    /// What `failure` comes from, if the server has ended.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        let Some(error) = self.complaint[0].get() else { return failure };
        let line = format!("the server has ended: {error}");
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM) => Failure::Limit(line),
            _ => Failure::Broken(line),
        }
    }

    /// CPU time that it has used, in user space and in the kernel.
    pub(super) fn cpu_ns(&self) -> u64 {
        clock::cpu_ns_of_process(self.pid).unwrap_or_default()
    }

    /// Its bytes that are resident, and those of its page tables.
    ///
    /// # Errors
    /// If `/proc` does not tell.
    pub(super) fn resident_bytes(&self) -> Result<u64, Failure> {
        let file = format!("/proc/{}/status", self.pid);
        let status = fs::read_to_string(&file).unwrap_or_default();
        let [resident, tables] = ["VmRSS", "VmPTE"].map(|name| limits::kib_field(&status, name));
        let kib = resident.zip(tables).map(|(resident, tables)| resident + tables);
        kib.map(|kib| kib * 1024).ok_or_else(|| {
            Failure::Unavailable(format!("{file} does not tell VmRSS and VmPTE: mount /proc"))
        })
    }
}

/// Whether the server has not begun yet, as far as `error` tells.
fn may_begin(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}
