//! Classifies threads of running programs as stalling or computing, and places them.
//!
//! The programs need not know Daiko. `daiko pair` is built on this crate. README.md explains the
//! classification and its limits.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("daiko-pair decodes instructions of x86-64: it builds for such processors only");

pub mod advice;
pub mod class;
pub mod feed;
pub mod journal;
mod ledger;
pub mod machine;
pub mod progress;
pub mod session;
pub mod steady;
pub mod thread;
pub mod trial;

pub use daiko_core::place::Class;
