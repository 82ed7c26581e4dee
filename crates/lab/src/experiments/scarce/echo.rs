//! An echo server under a quota, with a client outside of it.

use std::time::Duration;
use std::{io, mem};

use super::control_group;
use super::quota::{Limit, Way};
use super::sample::group;
use super::stops;
use crate::experiments::serve::{ECHO_WORKERS, EchoServer, echo_sample};
use crate::kit::{Failure, Params, Sample};

/// Connections of a point.
pub(super) const CONNECTIONS: usize = 50;

/// The methods of the ring that have an echo.
pub(super) const SERVERS: [(&str, EchoServer); 3] =
    [("daiko", EchoServer::Daiko), ("tokio", EchoServer::Tokio), ("go", EchoServer::Go)];

/// Parameters of an echo: its connections, and the limit of the server's CPU time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EchoSpec {
    pub(super) connections: usize,
    pub(super) limit: Option<Limit>,
}

impl EchoSpec {
    pub(super) fn params(&self) -> Params {
        let params = Params::new().with("connections", self.connections);
        Limit::with(self.limit, params.with("workers", ECHO_WORKERS))
    }

    /// The point that `params` describe.
    pub(super) fn from_params(params: &Params) -> Option<Self> {
        let connections = params.size("connections").filter(|number| (1..=10_000).contains(number));
        let spec = Self { connections: connections?, limit: Limit::from_params(params)? };
        (params.size("workers") == Some(ECHO_WORKERS)).then_some(spec)
    }

    /// Measures for `window` each at full load and at half of it.
    pub(super) fn sample(self, server: EchoServer, window: Duration) -> Result<Sample, Failure> {
        // Lives longer than the server, as it has to be empty when it is removed.
        let group = group(self.limit)?;
        let begin = || {
            let entered = control_group::enter(group.as_ref());
            entered.map_err(|failure| io::Error::other(failure.to_string()))?;
            if self.limit.is_some_and(|limit| limit.way == Way::Stops) {
                // It ends with the server.
                mem::forget(stops::of_this_process()?);
            }
            Ok(())
        };
        echo_sample(server, self.connections, &begin, window)
    }
}

/// Returns the server of a method.
pub(super) fn server(method: &str) -> Option<EchoServer> {
    SERVERS.iter().find(|(name, _)| *name == method).map(|(_, server)| *server)
}
