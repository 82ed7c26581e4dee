//! Servers of fibers, one of which accepts connections.

use std::convert::Infallible;
use std::io;

use daiko::RuntimeBuilder;
use daiko::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::kit::address::Address;

/// Serves on a runtime of `builder`; `tcp` and `unix` start the fiber of a connection.
pub(super) fn serve(
    builder: RuntimeBuilder,
    address: &Address,
    tcp: impl Fn(TcpStream) + Send + 'static,
    unix: impl Fn(UnixStream) + Send + 'static,
) -> io::Result<Infallible> {
    let runtime = builder.build().map_err(io::Error::other)?;
    let address = address.clone();
    runtime.run(move || accept(&address, tcp, unix))
}

fn accept(
    address: &Address,
    tcp: impl Fn(TcpStream),
    unix: impl Fn(UnixStream),
) -> io::Result<Infallible> {
    match address {
        Address::Tcp(address) => {
            let listener = TcpListener::bind(*address)?;
            loop {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                tcp(stream);
            }
        }
        Address::Unix(path) => {
            let listener = UnixListener::bind(path)?;
            loop {
                unix(listener.accept()?);
            }
        }
    }
}
