//! `kv`: Daiko's example, a fiber for each connection, on one worker.

#[path = "../../../kv/buffers.rs"]
mod buffers;
#[path = "../../../kv/commands.rs"]
mod commands;
#[path = "../../../kv/file.rs"]
mod file;
#[path = "../../../kv/log.rs"]
mod log;
#[path = "../../../kv/record.rs"]
mod record;
#[path = "../../../kv/replay.rs"]
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
use std::sync::Arc;

use daiko::Runtime;
use daiko::net::{TcpStream, UnixStream};

use self::commands::Database;
use self::serve::{Connection, serve};
use super::address::Address;
use super::fibers;
use super::method::ServerMethod;
use super::script::Language;

pub(super) const METHOD: ServerMethod =
    ServerMethod { language: Language::Resp, ..ServerMethod::echo("kv", serve_here) };

fn serve_here(address: &Address, _: usize) -> io::Result<Infallible> {
    let database = Arc::new(Database::new());
    let same = Arc::clone(&database);
    let (tcp, unix) = (move |stream| start(stream, &database), move |stream| start(stream, &same));
    fibers::serve(Runtime::builder().workers(1), address, tcp, unix)
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
