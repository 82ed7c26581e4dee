//! Where flows run: over a loopback of their own, steered or not, or over the host's as it is.

use daiko_sys::cpu::CpuSet;
use daiko_sys::steering::{self, Loan, PrivateNetwork, SteeringError, Table};

use crate::kit::{Failure, Skip};

/// More flows than are measured, so that few share a place.
const ENTRIES: u32 = 32_768;
const LOOPBACK: &str = "lo";

/// Lets a sample have its packets processed as it wants them, until dropped.
pub(super) enum Ground {
    /// A network of its own, for good; and the system's table of flows, for a while.
    Own { _network: PrivateNetwork, _loan: Option<Loan> },
    /// The host's, which happens to be as it should.
    Host,
}

impl Ground {
    /// Whether there is one; quick, and changes nothing.
    ///
    /// # Errors
    /// Why not, with the remedy.
    pub(super) fn supports(rfs: bool) -> Result<(), Skip> {
        if host_is(rfs) {
            return Ok(());
        }
        let table = if rfs { Table::system().probe() } else { Ok(()) };
        table.and(PrivateNetwork::probe()).map_err(|error| Skip::new(error.to_string()))
    }

    /// With packets processed on those of `cpus` where they are read, or where they are sent.
    ///
    /// # Errors
    /// Why not, with the remedy.
    pub(super) fn enter(rfs: bool, cpus: &CpuSet) -> Result<Self, Failure> {
        match Self::own(rfs, cpus) {
            Err(SteeringError::NotAllowed { .. } | SteeringError::NoTable) if host_is(rfs) => {
                Ok(Self::Host)
            }
            Err(error @ SteeringError::Refused { .. }) => Err(Failure::Broken(error.to_string())),
            ground => ground.map_err(|error| Failure::Unavailable(error.to_string())),
        }
    }

    /// The table first: it is not to be seen from the network.
    fn own(rfs: bool, cpus: &CpuSet) -> Result<Self, SteeringError> {
        let loan = if rfs { Some(Table::system().lend(ENTRIES)?) } else { None };
        let network = PrivateNetwork::enter()?;
        network.steer(cpus, if rfs { ENTRIES } else { 0 })?;
        Ok(Self::Own { _network: network, _loan: loan })
    }
}

/// Whether the loopback of the host is steered, or not.
fn host_is(rfs: bool) -> bool {
    steering::is_on_for(LOOPBACK) == rfs
}
