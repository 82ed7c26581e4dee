//! `redis`: `redis-server`, without anything that it would write to disk.

use std::{convert::Infallible, io, os::unix::ffi::OsStrExt};

use super::{address::Address, method::Method, script::Language};
use crate::kit::{
    Skip,
    redis::{become_server, installed, quiet},
};

/// Connections beside those that are measured.
const SPARE: usize = 16;

pub(super) struct Redis;

impl Method for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn language(&self) -> Language {
        Language::Resp
    }

    fn supports(&self, _: usize) -> Result<(), Skip> {
        installed()
    }

    /// Becomes the server.
    fn serve(&self, address: &Address, connections: usize) -> io::Result<Infallible> {
        let most = (connections + SPARE).to_string();
        let most = ["--maxclients", &most].map(str::as_bytes);
        let words = match address {
            Address::Tcp(address) => {
                let (ip, port) = (address.ip().to_string(), address.port().to_string());
                let words = ["--bind", &ip, "--port", &port].map(str::as_bytes);
                quiet(words.into_iter().chain(most))
            }
            Address::Unix(path) => {
                let words =
                    [b"--port".as_slice(), b"0", b"--unixsocket", path.as_os_str().as_bytes()];
                quiet(words.into_iter().chain(most))
            }
        };
        become_server(&words)
    }
}
