//! `daiko topology`: the CPUs that a runtime started here would use.

use std::{io::Write, process::ExitCode};

use daiko_sys::cpu;

use crate::problem::Problem;

/// Prints the CPUs in the affinity mask, the quota and what follows from them.
pub(crate) fn run(out: &mut dyn Write) -> Result<ExitCode, Problem> {
    let allowed = cpu::allowed()
        .map_err(|error| Problem::System(format!("cannot read the affinity mask: {error}")))?;
    writeln!(out, "allowed CPUs: {allowed} ({} in the affinity mask)", allowed.len())?;
    match cpu::quota() {
        Some(quota) => writeln!(out, "quota: {quota:.2} CPUs (control group)")?,
        None => writeln!(out, "quota: none")?,
    }
    writeln!(out, "workers by default: {}", cpu::default_workers())?;
    Ok(ExitCode::SUCCESS)
}
