//! The launcher of Open MPI, and its compiler.

use std::path::Path;
use std::process::Command;

use super::driver::{Toolchain, find_compiler, say};
use super::failure::Skip;

const PACKAGES: &str = "openmpi-bin libopenmpi-dev";

/// Finds the compiler of programs for MPI.
pub(crate) fn find() -> Result<Toolchain, Skip> {
    let version = say(Path::new("mpirun"), &["--version"], "");
    let version = version.ok_or_else(|| Skip::without("not installed", PACKAGES))?;
    if !version.contains("Open MPI") {
        return Err(Skip::new("mpirun is not that of Open MPI"));
    }
    let compiler = find_compiler("mpicc", "libopenmpi-dev")?;
    Ok(Toolchain { version: compiler.version + &version, ..compiler })
}

/// Returns the command that starts ranks on this machine, which pass messages through shared
/// memory. The programs bind themselves.
pub(crate) fn launcher() -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--bind-to", "none", "--allow-run-as-root"]);
    command.args([
        "--mca",
        "plm",
        "isolated",
        "--mca",
        "pml",
        "ob1",
        "--mca",
        "btl",
        "^tcp,openib",
    ]);
    command
}
