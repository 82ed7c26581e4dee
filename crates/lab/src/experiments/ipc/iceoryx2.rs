//! `iceoryx2`: requests and responses of iceoryx2, whose messages are written and read in place.
//!
//! Both sides look for messages in a loop, as its own documentation does, without a pause of fixed
//! length. Where the server shares the CPU of its clients, a side that finds nothing yields the
//! CPU. Its other wait, a `Listener` that blocks, takes several times as long.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path as StdPath;
use std::time::Duration;
use std::{process, thread};

use ::iceoryx2::config::Config;
use ::iceoryx2::prelude::*;
use ::iceoryx2::service::port_factory::PortFactory as _;
use ::iceoryx2::service::port_factory::request_response::PortFactory;
use tempfile::TempDir;

use super::client::Calls;
use super::mailbox::pause;
use super::method::{ICEORYX2, IpcSpec, Link};
use crate::kit::{Failure, OrFailure, host};

/// Folder of its named shared memory.
const SHARED_MEMORY: &str = "/dev/shm";
/// Interval between looks for the server, before any call.
const LOOK: Duration = Duration::from_millis(1);

type Requests = PortFactory<ipc::Service, [u64], (), [u64], ()>;

pub(super) struct Iceoryx2 {
    /// Root of the files of this sample, except for those in shared memory.
    _folder: TempDir,
    /// Beginning of the names of those.
    prefix: String,
    config: Config,
    clients: usize,
    shares_cpu: bool,
}

impl Iceoryx2 {
    /// Opens the service in the calling process, by a node of its own.
    fn service(&self) -> io::Result<Requests> {
        let node = NodeBuilder::new()
            .config(&self.config)
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<ipc::Service>()
            .map_err(broken)?;
        let name = "lab".try_into().map_err(broken)?;
        let service = node.service_builder(&name).request_response::<[u64], [u64]>();
        let service = service.max_servers(1).max_clients(self.clients).max_nodes(self.clients + 1);
        service.open_or_create().map_err(broken)
    }
}

impl Drop for Iceoryx2 {
    /// Removes the shared memory, which the killed server has left behind.
    fn drop(&mut self) {
        let entries = fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten();
        let own = |name: &[u8]| name.starts_with(self.prefix.as_bytes());
        for entry in entries.filter(|entry| own(entry.file_name().as_bytes())) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

impl Link for Iceoryx2 {
    const NAME: &'static str = ICEORYX2;

    fn open(spec: &IpcSpec) -> Result<Self, Failure> {
        let folder = host::temporary_folder()?;
        let unique = folder.path().file_name().map(|name| name.to_string_lossy().into_owned());
        let prefix = format!("daiko-{}{}_", process::id(), unique.unwrap_or_default());
        let config = config(folder.path(), &prefix).or_broken("iceoryx2")?;
        let (clients, shares_cpu) = (spec.clients, spec.shares_cpu());
        Ok(Self { _folder: folder, prefix, config, clients, shares_cpu })
    }

    fn serve<const WORDS: usize>(&self) -> io::Result<Infallible> {
        let service = self.service()?;
        let server = service.server_builder().initial_max_slice_len(WORDS).create();
        let server = server.map_err(broken)?;
        loop {
            let Some(request) = server.receive().map_err(broken)? else {
                pause(self.shares_cpu);
                continue;
            };
            let question = request.payload();
            let mut response = request.loan_slice_uninit(question.len()).map_err(broken)?;
            for (to, from) in response.payload_mut().iter_mut().zip(question) {
                to.write(from.wrapping_add(1));
            }
            // SAFETY: it is as long as the question, so that every word was written.
            unsafe { response.assume_init() }.send().map_err(broken)?;
        }
    }

    fn ask<const WORDS: usize>(&self, _client: usize, calls: Calls<'_, WORDS>) -> io::Result<()> {
        let service = self.service()?;
        // A request that is sent before there is a server would get no response.
        while service.dynamic_config().number_of_servers() == 0 {
            thread::sleep(LOOK);
        }
        let client = service.client_builder().initial_max_slice_len(WORDS).create();
        let client = client.map_err(broken)?;
        calls.make(|message| {
            let request = client.loan_slice_uninit(WORDS).map_err(broken)?;
            let response = request.write_from_slice(message).send().map_err(broken)?;
            loop {
                if let Some(answer) = response.receive().map_err(broken)? {
                    let answer: &[u64; WORDS] = answer.payload().try_into().map_err(broken)?;
                    *message = *answer;
                    return Ok(());
                }
                pause(self.shares_cpu);
            }
        })
    }
}

/// Keeps all files of a sample in `root`, or below this `prefix` in shared memory.
fn config(root: &StdPath, prefix: &str) -> io::Result<Config> {
    let mut config = Config::default();
    let root = Path::new(root.as_os_str().as_bytes()).map_err(broken)?;
    config.global.set_root_path(&root);
    config.global.prefix = FileName::new(prefix.as_bytes()).map_err(broken)?;
    Ok(config)
}

fn broken(error: impl std::fmt::Debug) -> io::Error {
    io::Error::other(format!("iceoryx2: {error:?}"))
}
