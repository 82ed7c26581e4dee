//! `echo-tokio`: a task of tokio for each connection, in its multi-threaded runtime with one
//! worker, as the server has a single CPU; and the same in its single-threaded runtime.

use std::convert::Infallible;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Builder;

use super::echo::BUFFER;
use super::method::ServerMethod;
use crate::kit::address::Address;

/// The methods with the default runtime of programs, and with the single-threaded runtime.
pub(super) const METHODS: [ServerMethod; 2] = [
    ServerMethod::echo("echo-tokio", |address, _| serve_by(1, address)),
    ServerMethod::echo("echo-tokio-single", |address, _| {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(accept(address.clone()))
    }),
];

/// Serves on so many workers.
pub(super) fn serve_by(workers: usize, address: &Address) -> io::Result<Infallible> {
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_io().build()?;
    // Accepts on a worker, where the connections are.
    let accepting = runtime.spawn(accept(address.clone()));
    runtime.block_on(accepting).map_err(io::Error::other)?
}

async fn accept(address: Address) -> io::Result<Infallible> {
    match address {
        Address::Tcp(address) => {
            let listener = TcpListener::bind(address).await?;
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                tokio::spawn(echo(stream));
            }
        }
        Address::Unix(path) => {
            let listener = UnixListener::bind(path)?;
            loop {
                let (stream, _) = listener.accept().await?;
                tokio::spawn(echo(stream));
            }
        }
    }
}

async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut buffer = [0; BUFFER];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            read => stream.write_all(&buffer[..read]).await?,
        }
    }
}
