//! `redis`: `redis-server`, configured to write nothing to disk, or its log only.

use std::convert::Infallible;
use std::io;
use std::os::unix::ffi::OsStrExt;

use super::kv::Fsync;
use super::method::ServerMethod;
use super::script::Language;
use crate::kit::address::Address;
use crate::kit::redis::{become_server, installed, quiet};

/// Connections in addition to those that are measured.
const SPARE: usize = 16;

pub(super) const METHOD: ServerMethod = ServerMethod {
    name: "redis",
    language: Language::Resp { writes: 10 },
    supports: |_| installed(),
    serve: |address, connections| become_redis(address, connections, &[]),
    serve_logged: Some(serve_logged),
};

/// Becomes a server with a log. Its other settings are the defaults, as for our own: the log is
/// rewritten from 64 MiB on.
fn serve_logged(address: &Address, connections: usize, fsync: Fsync) -> io::Result<Infallible> {
    let log = ["--appendonly", "yes", "--appendfsync", fsync.name()];
    become_redis(address, connections, &log)
}

/// Becomes the server.
fn become_redis(address: &Address, connections: usize, log: &[&str]) -> io::Result<Infallible> {
    let most = (connections + SPARE).to_string();
    let most = ["--maxclients", &most].into_iter().chain(log.iter().copied()).map(str::as_bytes);
    let words = match address {
        Address::Tcp(address) => {
            let (ip, port) = (address.ip().to_string(), address.port().to_string());
            let words = ["--bind", &ip, "--port", &port].map(str::as_bytes);
            quiet(words.into_iter().chain(most))
        }
        Address::Unix(path) => {
            let words = [b"--port".as_slice(), b"0", b"--unixsocket", path.as_os_str().as_bytes()];
            quiet(words.into_iter().chain(most))
        }
    };
    become_server(&words)
}
