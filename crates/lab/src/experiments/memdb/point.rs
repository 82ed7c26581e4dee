//! Points of the experiment.

use std::path::Path;

use super::setup::DatabaseSetup;
use crate::kit::{Choice, Params};

/// The method with the server that `daiko run` runs.
pub(super) const THREADS: &str = "threads";

/// The way of requests to sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransportKind {
    InProcess,
    Tcp,
}

impl Choice for TransportKind {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::InProcess, "in-process"), (Self::Tcp, "tcp")];
}

/// The log of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogKind {
    None,
    Always,
}

impl Choice for LogKind {
    const NAMES: &'static [(Self, &'static str)] =
        &[(Self::None, "none"), (Self::Always, "always")];
}

/// Parameters of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionPoint {
    pub(super) transport: TransportKind,
    pub(super) log: LogKind,
    pub(super) sessions: usize,
}

impl SessionPoint {
    pub(super) fn params(self) -> Params {
        let params = Params::new().with("transport", self.transport).with("log", self.log);
        params.with("sessions", self.sessions)
    }

    pub(super) fn from_params(params: &Params) -> Option<Self> {
        let sessions = params.size("sessions").filter(|number| (1..=1_000_000).contains(number))?;
        let (transport, log) = (params.choice("transport")?, params.choice("log")?);
        Some(Self { transport, log, sessions })
    }

    /// Length of a part: enough for several transactions of each session.
    pub(super) fn milliseconds(self, quick: bool) -> u64 {
        match quick {
            true if self.log == LogKind::Always => 300,
            true => 150,
            false if self.sessions >= 10_000 => 2000,
            false => 1000,
        }
    }

    /// Returns the database of this point, with its log at `path`.
    pub(super) fn setup(self, path: &Path) -> DatabaseSetup<'_> {
        let log = (self.log == LogKind::Always).then_some(path);
        DatabaseSetup { log, sessions: self.sessions }
    }
}
