//! `unix-socket`: a pair of stream sockets.

use std::{io, os::unix::net::UnixStream};

use super::streams::{End, Stream};

pub(super) struct UnixSocket;

impl Stream for UnixSocket {
    const NAME: &'static str = "unix-socket";

    fn connect() -> io::Result<[End; 2]> {
        let (server, client) = UnixStream::pair()?;
        Ok([End::of_both(server)?, End::of_both(client)?])
    }
}
