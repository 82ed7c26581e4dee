//! Which threads of running programs stall, and which compute; and where to put them.
//!
//! For programs that know nothing of Daiko: `daiko pair` is made of it. README.md has how it comes to its verdicts, and what
//! it takes care of.

pub mod class;
pub mod journal;
mod ledger;
pub mod machine;
pub mod progress;
pub mod session;
pub mod steady;
pub mod thread;
pub mod trial;

pub use daiko_core::place::Class;
