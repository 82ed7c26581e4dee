//! `echo-threads`: a blocking kernel thread for each connection.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::thread;

use super::echo::echo;
use super::method::ServerMethod;
use crate::kit::address::Address;
use crate::kit::thread_limits;

/// Stack size, as small as a fiber's.
const STACK: usize = 64 << 10;

pub(super) const METHOD: ServerMethod =
    ServerMethod { supports: thread_limits::check, ..ServerMethod::echo("echo-threads", serve) };

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
