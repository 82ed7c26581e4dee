//! `redis`: `redis-server`, configured to write nothing to disk.

use std::convert::Infallible;
use std::io;
use std::os::unix::ffi::OsStrExt;

use super::address::Address;
use super::method::ServerMethod;
use super::script::Language;
use crate::kit::redis::{become_server, installed, quiet};

/// Connections in addition to those that are measured.
const SPARE: usize = 16;

pub(super) const METHOD: ServerMethod =
    ServerMethod { name: "redis", language: Language::Resp, supports: |_| installed(), serve };

/// Becomes the server.
fn serve(address: &Address, connections: usize) -> io::Result<Infallible> {
    let most = (connections + SPARE).to_string();
    let most = ["--maxclients", &most].map(str::as_bytes);
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
