//! `daiko topology`: the processors of this machine or of a recorded one, and the defaults of a
//! runtime started here.

pub mod drawing;
mod json;

use std::{io::Write, process::ExitCode};

use daiko_sys::{
    cpu::{self, CpuSet},
    topology::{Topology, TopologyError},
};

use crate::{args::TopologyRequest, problem::Problem};

/// The part of the machine that only a running system knows.
struct Share {
    allowed: CpuSet,
    /// The quota in CPUs.
    quota: Option<f64>,
    workers: usize,
}

impl Share {
    fn read() -> Result<Self, Problem> {
        let allowed = cpu::allowed().map_err(TopologyError::Affinity).map_err(of_system)?;
        Ok(Self { allowed, quota: cpu::quota(), workers: cpu::default_workers() })
    }

    /// Prints the affinity mask, the quota and the resulting defaults.
    fn print(&self, out: &mut dyn Write) -> Result<(), Problem> {
        let allowed = &self.allowed;
        writeln!(out, "allowed CPUs: {allowed} ({} in the affinity mask)", allowed.len())?;
        match self.quota {
            Some(quota) => writeln!(out, "quota: {quota:.2} CPUs (control group)")?,
            None => writeln!(out, "quota: none")?,
        }
        Ok(writeln!(out, "workers by default: {}", self.workers)?)
    }
}

fn of_system(error: TopologyError) -> Problem {
    Problem::System(error.to_string())
}

/// Prints the machine as a drawing or as JSON.
pub(crate) fn run(request: &TopologyRequest, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let (share, machine) = match &request.root {
        Some(root) => {
            let machine = Topology::read_in(root, None);
            (None, machine.map_err(|error| Problem::usage(format!("--root: {error}"))))
        }
        None => {
            let share = Share::read()?;
            let machine = Topology::read_in("/".as_ref(), Some(&share.allowed));
            (Some(share), machine.map_err(of_system))
        }
    };
    if request.json {
        writeln!(out, "{}", json::of(&machine?, share.as_ref()))?;
    } else {
        // Printed even if the machine is not described, as in some containers.
        share.map_or(Ok(()), |share| share.print(out))?;
        write!(out, "{}", drawing::of(&machine?))?;
    }
    Ok(ExitCode::SUCCESS)
}
