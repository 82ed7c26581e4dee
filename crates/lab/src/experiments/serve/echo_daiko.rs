//! `echo-daiko`: a fiber for each connection, on one worker; the same with each way to ask the
//! kernel for events.

use std::convert::Infallible;
use std::io::{self, Read, Write};

use daiko::Runtime;
use daiko_sys::selector::{self, SelectorKind};

use super::echo::echo;
use super::fibers;
use super::method::ServerMethod;
use crate::kit::Skip;
use crate::kit::address::Address;

/// The methods with the default selector of a worker, then with each selector.
pub(super) const METHODS: [ServerMethod; 4] = [
    ServerMethod::echo("echo-daiko", |address, _| serve(None, address)),
    ServerMethod {
        supports: |_| probe(SelectorKind::Epoll),
        ..ServerMethod::echo("echo-daiko-epoll", |address, _| {
            serve(Some(SelectorKind::Epoll), address)
        })
    },
    ServerMethod {
        supports: |_| probe(RING),
        ..ServerMethod::echo("echo-daiko-uring", |address, _| serve(Some(RING), address))
    },
    ServerMethod {
        supports: |_| probe(INTERRUPTING),
        ..ServerMethod::echo("echo-daiko-uring-irq", |address, _| {
            serve(Some(INTERRUPTING), address)
        })
    },
];

const RING: SelectorKind = SelectorKind::Ring { deferred: true };
const INTERRUPTING: SelectorKind = SelectorKind::Ring { deferred: false };

fn probe(kind: SelectorKind) -> Result<(), Skip> {
    selector::probe(kind).map_err(|refused| Skip::new(refused.to_string()))
}

fn serve(selector: Option<SelectorKind>, address: &Address) -> io::Result<Infallible> {
    let builder = Runtime::builder().workers(1);
    let builder = match selector {
        Some(kind) => builder.selector_kind(kind),
        None => builder,
    };
    fibers::serve(builder, address, start, start)
}

/// Serves on several workers with the settings of any program.
pub(super) fn serve_by(workers: usize, address: &Address) -> io::Result<Infallible> {
    fibers::serve(Runtime::builder().workers(workers), address, start, start)
}

fn start(stream: impl Read + Write + Send + 'static) {
    daiko::spawn(|| echo(stream));
}
