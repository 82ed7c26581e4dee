//! `kv`: Daiko's example, a fiber for each connection, on one worker.

#[path = "../../../kv/commands.rs"]
mod commands;
#[path = "../../../kv/resp.rs"]
mod resp;
#[path = "../../../kv/serve.rs"]
mod serve;
#[path = "../../../kv/store.rs"]
mod store;
#[path = "../../../kv/words.rs"]
mod words;

use std::{convert::Infallible, io, sync::Arc};

use daiko::{
    Runtime,
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
};

use self::{
    commands::Database,
    serve::{Connection, serve},
};
use super::{address::Address, method::ServerMethod, script::Language};

pub(super) const METHOD: ServerMethod =
    ServerMethod { language: Language::Resp, ..ServerMethod::echo("kv", serve_here) };

fn serve_here(address: &Address, _: usize) -> io::Result<Infallible> {
    let runtime = Runtime::builder().workers(1).build().map_err(io::Error::other)?;
    let address = address.clone();
    runtime.run(move || accept(&address))
}

fn accept(address: &Address) -> io::Result<Infallible> {
    let server = Arc::new(Database::new());
    match address {
        Address::Tcp(address) => {
            let listener = TcpListener::bind(*address)?;
            loop {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                start(stream, &server);
            }
        }
        Address::Unix(path) => {
            let listener = UnixListener::bind(path)?;
            loop {
                start(listener.accept()?, &server);
            }
        }
    }
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
