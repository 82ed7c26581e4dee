//! `echo-tokio`: a task of tokio for each connection, in its runtime of several threads, with one of them, as the
//! server has a single CPU; and the same in the runtime that is a single thread.

use std::{convert::Infallible, io};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixListener},
    runtime::Builder,
};

use super::{address::Address, echo::BUFFER, method::Method};

/// The runtimes of tokio.
pub(super) enum EchoTokio {
    /// The one that programs get by default.
    Threads,
    SingleThread,
}

impl Method for EchoTokio {
    fn name(&self) -> &'static str {
        match self {
            Self::Threads => "echo-tokio",
            Self::SingleThread => "echo-tokio-single",
        }
    }

    fn serve(&self, address: &Address, _: usize) -> io::Result<Infallible> {
        let address = address.clone();
        let accepting = async move { accept(&address).await };
        match self {
            // On the worker, as the connections are.
            Self::Threads => {
                let runtime = Builder::new_multi_thread().worker_threads(1).enable_io().build()?;
                runtime.block_on(runtime.spawn(accepting)).map_err(io::Error::other)?
            }
            Self::SingleThread => {
                Builder::new_current_thread().enable_io().build()?.block_on(accepting)
            }
        }
    }
}

async fn accept(address: &Address) -> io::Result<Infallible> {
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
