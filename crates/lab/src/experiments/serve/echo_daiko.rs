//! `echo-daiko`: a fiber for each connection, on one worker; the same with each way to ask the kernel.

use std::{convert::Infallible, io};

use daiko::{
    Runtime,
    net::{TcpListener, UnixListener},
};
use daiko_sys::selector::{self, Kind};

use super::{address::Address, echo::echo, method::Method};
use crate::kit::Skip;

pub(super) struct EchoDaiko {
    name: &'static str,
    /// How the worker asks for descriptors; `None`: as it does by itself.
    selector: Option<Kind>,
}

impl EchoDaiko {
    pub(super) const BY_ITSELF: Self = Self { name: "echo-daiko", selector: None };
    pub(super) const EPOLL: Self = Self { name: "echo-daiko-epoll", selector: Some(Kind::Epoll) };
    pub(super) const RING: Self =
        Self { name: "echo-daiko-uring", selector: Some(Kind::Ring { deferred: true }) };
    pub(super) const INTERRUPTING: Self =
        Self { name: "echo-daiko-uring-irq", selector: Some(Kind::Ring { deferred: false }) };
}

impl Method for EchoDaiko {
    fn name(&self) -> &'static str {
        self.name
    }

    fn supports(&self, _: usize) -> Result<(), Skip> {
        let Some(kind) = self.selector else { return Ok(()) };
        selector::probe(kind).map_err(|refused| Skip::new(refused.to_string()))
    }

    fn serve(&self, address: &Address, _: usize) -> io::Result<Infallible> {
        let builder = Runtime::builder().workers(1);
        let builder = match self.selector {
            Some(kind) => builder.selector_kind(kind),
            None => builder,
        };
        let runtime = builder.build().map_err(io::Error::other)?;
        let address = address.clone();
        runtime.run(move || accept(&address))
    }
}

fn accept(address: &Address) -> io::Result<Infallible> {
    match address {
        Address::Tcp(address) => {
            let listener = TcpListener::bind(*address)?;
            loop {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                daiko::spawn(|| echo(stream));
            }
        }
        Address::Unix(path) => {
            let listener = UnixListener::bind(path)?;
            loop {
                let stream = listener.accept()?;
                daiko::spawn(|| echo(stream));
            }
        }
    }
}
