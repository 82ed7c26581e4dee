//! `tcp`: a connection over the loopback, without delay for more to send.

use std::{
    io,
    net::{Ipv4Addr, TcpListener, TcpStream},
};

use super::streams::{End, Stream};

pub(super) struct Tcp;

impl Stream for Tcp {
    const NAME: &'static str = "tcp";

    fn connect() -> io::Result<[End; 2]> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        server.set_nodelay(true)?;
        client.set_nodelay(true)?;
        Ok([End::of_both(server)?, End::of_both(client)?])
    }
}
