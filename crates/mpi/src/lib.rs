//! MPI for fibers: a wait for a message of another process, on this machine or another one,
//! suspends the fiber only.
//!
//! A program is started by MPI's launcher, one process (*rank*) for each part of the machines:
//! `mpirun -n 4 PROGRAM`. In each rank thousands of fibers send and receive in plain blocking code,
//! while one poller for all of them makes MPI's progress ([`daiko::agent`]). The file README.md
//! beside this code has the protocol, and the rejected designs.
//!
//! Everything needs the feature `mpi`, and with it an MPI library with its compiler `mpicc` (Open
//! MPI, MPICH; the variable `MPICC` names another one). Without it this crate is empty.

#[cfg(feature = "mpi")]
mod collective;
#[cfg(feature = "mpi")]
mod comm;
#[cfg(feature = "mpi")]
mod engine;
#[cfg(feature = "mpi")]
mod error;
#[cfg(feature = "mpi")]
mod gate;
#[cfg(feature = "mpi")]
mod init;
#[cfg(any(feature = "mpi", test))]
mod matching;
#[cfg(feature = "mpi")]
mod raw;
#[cfg(feature = "mpi")]
mod request;
#[cfg(feature = "mpi")]
mod table;

#[cfg(feature = "mpi")]
pub use collective::{MpiNumber, ReduceOp};
#[cfg(feature = "mpi")]
pub use comm::{Comm, Envelope, FreeError};
#[cfg(feature = "mpi")]
pub use error::{FinalizeError, InitError, MpiError};
#[cfg(feature = "mpi")]
pub use init::{EngineCounters, Mpi, init, init_in};
#[cfg(feature = "mpi")]
pub use request::{MatchedMessage, RecvRequest, SendRequest};
