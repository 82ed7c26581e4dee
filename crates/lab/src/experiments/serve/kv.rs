//! `kv`: Daiko's example, a fiber for each connection, on one worker.

#[path = "../../../kv/buffers.rs"]
mod buffers;
#[path = "../../../kv/commands.rs"]
mod commands;
#[path = "../../../kv/contents.rs"]
mod contents;
#[path = "../../../log/file.rs"]
mod file;
#[path = "../../../log/log.rs"]
mod log;
#[path = "../../../log/platform.rs"]
mod platform;
#[path = "../../../log/record.rs"]
mod record;
#[path = "../../../log/replay.rs"]
mod replay;
#[path = "../../../kv/resp.rs"]
mod resp;
#[path = "../../../kv/serve.rs"]
mod serve;
#[path = "../../../kv/store.rs"]
mod store;
#[path = "../../../kv/words.rs"]
mod words;

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::{Arc, Once};

use daiko::Runtime;
use daiko::net::{TcpStream, UnixStream};

use self::commands::Database;
pub(super) use self::log::Fsync;

/// The log of a store, and the load on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogLoad {
    pub(super) fsync: Fsync,
    /// Per cent of the requests that are SET.
    pub(super) writes: usize,
}
use self::log::LogOptions;
use self::serve::{Connection, serve};
use super::fibers;
use super::method::ServerMethod;
use super::script::Language;
use crate::kit::Choice;
use crate::kit::address::Address;

pub(super) const METHOD: ServerMethod = ServerMethod {
    language: Language::Resp { writes: 10 },
    serve_logged: Some(serve_logged),
    ..ServerMethod::echo("kv", serve_here)
};

fn serve_here(address: &Address, _: usize) -> io::Result<Infallible> {
    serve_all(address, Arc::new(Database::new()))
}

fn serve_logged(address: &Address, _: usize, fsync: Fsync) -> io::Result<Infallible> {
    let options = LogOptions { fsync, ..LogOptions::new(Path::new("log")) };
    serve_all(address, Database::open(&options).map_err(io::Error::other)?)
}

fn serve_all(address: &Address, database: Arc<Database>) -> io::Result<Infallible> {
    let (same, kept) = (Arc::clone(&database), Once::new());
    // The first connection comes in a fiber of the runtime, as those that keep the log must be.
    let keep = move |database: &Arc<Database>| kept.call_once(|| database.keep());
    let tcp = move |stream| {
        keep(&database);
        start(stream, &database);
    };
    fibers::serve(Runtime::builder().workers(1), address, tcp, move |stream| start(stream, &same))
}

impl Choice for Fsync {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::EverySecond, "everysec"), (Self::Always, "always")];
}

fn start(mut stream: impl Connection + Send + 'static, server: &Arc<Database>) {
    let server = server.clone();
    daiko::spawn(move || {
        // The reason why a connection ended concerns only its client.
        let _ = serve(&mut stream, &server);
    });
}

impl Connection for TcpStream {
    fn wait_readable(&mut self) -> io::Result<()> {
        self.readable()
    }
}

impl Connection for UnixStream {
    fn wait_readable(&mut self) -> io::Result<()> {
        self.readable()
    }
}
