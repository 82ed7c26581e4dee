//! The network on which flows run: a private loopback, steered or not, or the host's loopback as it
//! is.

use daiko_sys::cpu::CpuSet;
use daiko_sys::steering::{self, FlowTable, Loan, PrivateNetwork, SteeringError};

use crate::kit::{Failure, Skip};

/// More entries than measured flows, so that few flows share an entry.
const ENTRIES: u32 = 32_768;
const LOOPBACK: &str = "lo";

/// Keeps the packet processing of a sample configured until it is dropped.
pub(super) enum Ground {
    /// A private network, entered for good, and a loan of the system's flow table.
    Own { _network: PrivateNetwork, _loan: Option<Loan> },
    /// The host's network, already configured as required.
    Host,
}

impl Ground {
    /// Checks quickly, without changes, whether such a network is available.
    ///
    /// # Errors
    /// Returns the obstacle and its remedy.
    pub(super) fn supports(rfs: bool) -> Result<(), Skip> {
        if host_is(rfs) {
            return Ok(());
        }
        let table = if rfs { FlowTable::system().probe() } else { Ok(()) };
        table.and(PrivateNetwork::probe()).map_err(|error| Skip::new(error.to_string()))
    }

    /// Provides a network that processes packets, on the given `cpus`, where they are read if `rfs`
    /// is set, else where they are sent.
    ///
    /// # Errors
    /// Returns the obstacle and its remedy.
    pub(super) fn enter(rfs: bool, cpus: &CpuSet) -> Result<Self, Failure> {
        match Self::own(rfs, cpus) {
            Err(SteeringError::NotAllowed { .. } | SteeringError::NoTable) if host_is(rfs) => {
                Ok(Self::Host)
            }
            Err(error @ SteeringError::Refused { .. }) => Err(Failure::Broken(error.to_string())),
            ground => ground.map_err(|error| Failure::Unavailable(error.to_string())),
        }
    }

    /// Borrows the table first, as it is not visible from the private network.
    fn own(rfs: bool, cpus: &CpuSet) -> Result<Self, SteeringError> {
        let loan = if rfs { Some(FlowTable::system().lend(ENTRIES)?) } else { None };
        let network = PrivateNetwork::enter()?;
        network.steer(cpus, if rfs { ENTRIES } else { 0 })?;
        Ok(Self::Own { _network: network, _loan: loan })
    }
}

/// Whether steering of the host's loopback is on, or off, as `rfs` demands.
fn host_is(rfs: bool) -> bool {
    steering::is_on_for(LOOPBACK) == rfs
}
