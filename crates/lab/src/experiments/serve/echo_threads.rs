//! `echo-threads`: a blocking kernel thread for each connection.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;

use super::address::Address;
use super::echo::echo;
use super::method::ServerMethod;
use crate::kit::Skip;

/// Largest number of kernel threads. Beyond it, the limits of the machine would be measured.
const MOST_THREADS: usize = 10_000;
/// Stack size, as small as a fiber's.
const STACK: usize = 64 << 10;

pub(super) const METHOD: ServerMethod =
    ServerMethod { supports, ..ServerMethod::echo("echo-threads", serve) };

fn supports(connections: usize) -> Result<(), Skip> {
    if connections > MOST_THREADS {
        return Err(Skip::new(format!("kernel threads are measured up to {MOST_THREADS}")));
    }
    Ok(())
}

fn serve(address: &Address, _: usize) -> io::Result<Infallible> {
    match address {
        Address::Tcp(address) => {
            let listener = TcpListener::bind(address)?;
            loop {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                start(stream)?;
            }
        }
        Address::Unix(path) => {
            let listener = UnixListener::bind(path)?;
            loop {
                start(listener.accept()?.0)?;
            }
        }
    }
}

fn start(stream: impl Read + Write + Send + 'static) -> io::Result<()> {
    // A failed echo has closed its connection; the client reports that.
    thread::Builder::new().stack_size(STACK).spawn(move || echo(stream)).map(drop)
}
