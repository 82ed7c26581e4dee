//! Guides, of ten minutes each. There is nothing in these modules but text.
//!
//! | guide | for a program that |
//! |---|---|
//! | [From `std::thread` to Daiko](from_std) | has a program with threads, or tasks, and wants fibers |
//! | [Pinned, migratable fiber, `no_suspend`](placement) | uses thread-locals, `unsafe`, or wants to say where fibers run |
//! | [What may block and what may not](blocking) | calls what is not Daiko's: files, locks of `std`, other libraries |
//!
//! Their examples are run by the tests, and so are the messages that they quote.

#[doc = include_str!("from_std.md")]
pub mod from_std {}

#[doc = include_str!("placement.md")]
pub mod placement {}

#[doc = include_str!("blocking.md")]
pub mod blocking {}
