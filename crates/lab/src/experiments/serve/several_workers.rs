//! Echo servers with two workers, for an experiment that confines their processes.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use super::measure::ServeSpec;
use super::method::ServerMethod;
use super::{echo_daiko, echo_go, echo_tokio};
use crate::kit::address::Address;
use crate::kit::{Failure, Sample, Skip, host};

/// Workers of each server.
pub(in crate::experiments) const WORKERS: usize = 2;

/// A library whose echo has several workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiments) enum EchoServer {
    Daiko,
    Tokio,
    Go,
}

impl EchoServer {
    /// Checks that it can be run here, without compiling.
    pub(in crate::experiments) fn supports(self) -> Result<(), Skip> {
        host::two_cpus()?;
        match self {
            Self::Go => echo_go::GO.supports(),
            Self::Daiko | Self::Tokio => Ok(()),
        }
    }

    fn method(self) -> Result<ServerMethod, Failure> {
        let serve: fn(&Address, usize) -> io::Result<Infallible> = match self {
            Self::Daiko => |address, _| echo_daiko::serve_by(WORKERS, address),
            Self::Tokio => |address, _| echo_tokio::serve_by(WORKERS, address),
            Self::Go => {
                // Compiled here, as the process of the server is confined.
                echo_go::GO.program()?;
                |address, _| echo_go::serve_by(WORKERS, address)
            }
        };
        Ok(ServerMethod::echo("echo", serve))
    }
}

/// Measures throughput and latencies of an echo, as the points with `pipeline` 1 do. The process of
/// the server calls `begin` first and is not bound to a CPU; the client has the second one.
pub(in crate::experiments) fn echo_sample(
    server: EchoServer,
    connections: usize,
    begin: &dyn Fn() -> io::Result<()>,
    window: Duration,
) -> Result<Sample, Failure> {
    let (method, (_, client_cpu)) = (server.method()?, host::two_cpus()?);
    ServeSpec { method, log: None, connections, begin, client_cpu, window }.load(1)
}
