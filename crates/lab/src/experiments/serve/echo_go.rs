//! A goroutine for each connection, in a program of Go.

use std::convert::Infallible;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::kit::address::Address;
use crate::kit::driver::Driver;
use crate::kit::ring::program::find_go;

/// The program: an address and the number of workers are its arguments.
pub(super) static GO: Driver =
    Driver::new(&[("echo.go", include_str!("../../../drivers/echo.go"))], find_go);

/// Becomes the program, which has been compiled before.
pub(super) fn serve_by(workers: usize, address: &Address) -> io::Result<Infallible> {
    let program = GO.program().map_err(|failure| io::Error::other(failure.to_string()))?;
    let Address::Tcp(address) = address else { return Err(io::ErrorKind::Unsupported.into()) };
    Err(Command::new(program).args([address.to_string(), workers.to_string()]).exec())
}
