//! Which threads of running programs stall, and which compute; and where to put them.
//!
//! For programs that know nothing of Daiko: `daiko pair` is made of it.

pub mod class;

pub use daiko_core::place::Class;
