//! Ranks under MPI's launcher: each test runs itself as all ranks, in processes of their own.

#![cfg(feature = "mpi")]

#[path = "../../../../tests/child.rs"]
mod child;
mod collectives;
mod early;
mod ends;
mod example;
mod launch;
mod levels;
mod matching;
mod messages;
mod unmodified;
