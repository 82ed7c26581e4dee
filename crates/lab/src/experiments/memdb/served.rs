//! Servers in processes of their own, forked, or by `daiko run`.

use std::convert::Infallible;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use daiko_sys::process::{PidFd, die_with_parent};
use tempfile::TempDir;

use super::point::{SessionPoint, THREADS};
use super::setup::DatabaseSetup;
use super::{figures, threads};
use crate::kit::address::{Address, Socket};
use crate::kit::server::{Server, connect_once_started};
use crate::kit::{Case, Effort, Failure, Measure, OrFailure, Params, descendants, dropin, host};

/// The parameter of a server's own sample: the address that it serves at.
const ADDRESS: &str = "address";

/// The way to start a server.
#[derive(Clone, Copy)]
pub(super) enum ServerKind {
    /// The body of a forked process.
    Fork(fn(&Address, &DatabaseSetup) -> io::Result<Infallible>),
    /// The server of kernel threads, by `daiko run`.
    Run,
}

pub(super) enum SessionServer {
    Forked(Server),
    Run(RunServer),
}

/// The server of kernel threads, by `daiko run`.
pub(super) struct RunServer {
    child: Child,
    held: PidFd,
    address: Address,
    /// The current folder of the server, with its log and its messages.
    folder: TempDir,
}

impl SessionServer {
    /// Starts a server on the CPU of the caller.
    pub(super) fn start(kind: ServerKind, point: SessionPoint) -> Result<Self, Failure> {
        match kind {
            ServerKind::Fork(serve) => {
                let serve = |address: &Address| serve(address, &point.setup(Path::new("log")));
                Server::start(Socket::Tcp, &serve).map(Self::Forked)
            }
            ServerKind::Run => RunServer::start(point).map(Self::Run),
        }
    }

    pub(super) fn connect(&self) -> Result<File, Failure> {
        match self {
            Self::Forked(server) => server.connect(true),
            Self::Run(server) => {
                connect_once_started(&server.address, true, || server.held.has_ended())
            }
        }
    }

    /// CPU time of the server.
    pub(super) fn cpu_ns(&self) -> u64 {
        match self {
            Self::Forked(server) => server.process.cpu_ns(),
            Self::Run(server) => descendants::cpu_of_family(server.child.id()).as_nanos() as u64,
        }
    }

    /// Fails if the server has ended.
    pub(super) fn check_lives(&self) -> Result<(), Failure> {
        let has_ended = match self {
            Self::Forked(server) => server.process.complaint().is_some(),
            Self::Run(server) => server.held.has_ended(),
        };
        if has_ended { Err(Failure::Broken("the server has ended".into())) } else { Ok(()) }
    }

    /// Fails if the server should have run on workers, and has not.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self {
            Self::Forked(_) => Ok(()),
            Self::Run(server) => dropin::check(&server.errors()),
        }
    }

    /// Returns the cause of a failure, if the server has told one.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        match self {
            Self::Forked(server) => server.process.explain(failure, "the server has"),
            Self::Run(server) => {
                let errors = String::from_utf8_lossy(&server.errors()).into_owned();
                match errors.lines().last() {
                    Some(line) => Failure::Broken(format!("{failure}; the server: {line}")),
                    None => failure,
                }
            }
        }
    }
}

impl RunServer {
    /// Starts this program again, which takes the sample that [`measure`] describes: it never ends.
    fn start(point: SessionPoint) -> Result<Self, Failure> {
        let folder = host::temporary_folder()?;
        let address =
            Address::free(Socket::Tcp, folder.path()).or_limit("cannot start a server")?;
        let at = address.tcp().or_broken("the address")?;
        let words = dropin::command(1)?;
        let own = env::current_exe().or_broken("this program's file")?;
        let parent = std::process::id();
        let errors = File::create(folder.path().join("errors")).or_limit("no room in TMPDIR")?;
        let mut words = words.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).arg(own).args(["lab", "sample"]).current_dir(&folder);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(errors);
        for name in dropin::FOREIGN {
            command.env_remove(name);
        }
        // SAFETY: the closure only makes system calls; it uses no allocator and no locks.
        unsafe { command.pre_exec(move || die_with_parent(parent)) };
        let mut child = command.spawn().or_limit("cannot start a server")?;
        let held = PidFd::open(child.id()).or_broken("the server")?;
        let params = point.params().with(ADDRESS, &*at.to_string());
        let case = Case { experiment: figures::NAME.into(), method: THREADS.into(), params };
        let effort = Effort { rounds: 1, limit: Duration::from_secs(1) };
        let request = serde_json::json!({ "case": case, "effort": effort });
        if let Some(mut input) = child.stdin.take() {
            write!(input, "{request}").or_broken("cannot ask the server")?;
        }
        Ok(Self { child, held, address, folder })
    }

    fn errors(&self) -> Vec<u8> {
        fs::read(self.folder.path().join("errors")).unwrap_or_default()
    }
}

impl Drop for RunServer {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the body of a server's process that [`RunServer`] has started. It serves until it is
/// killed.
pub(super) fn measure(method: &str, params: &Params) -> Option<Measure> {
    let address = params.text(ADDRESS)?.parse().ok()?;
    let point = SessionPoint::from_params(params).filter(|_| method == THREADS)?;
    Some(Box::new(move |_| {
        let setup = point.setup(Path::new("log"));
        let served: io::Result<Infallible> = threads::serve(&Address::Tcp(address), &setup);
        let Err(error) = served;
        Err(Failure::Broken(format!("the server has ended: {error}")))
    }))
}
