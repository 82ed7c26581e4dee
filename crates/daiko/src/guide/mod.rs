//! Guides of ten minutes each. These modules contain only text.
//!
//! | guide | for a program that |
//! |---|---|
//! | [From `std::thread` to Daiko](from_std) | has threads or tasks, and is to use fibers |
//! | [Kinds of fibers, `no_suspend`](placement) | chooses a kind of fibers, or uses `unsafe` |
//! | [Fork and join](fork_join) | divides work among CPUs, or has rayon beside fibers |
//! | [Blocking calls](blocking) | uses files, locks of `std`, or other blocking libraries |
//! | [Futures](futures) | calls async libraries from fibers, or awaits fibers in tasks |
//! | [Sanitizers, valgrind](sanitizers) | is searched for faults of memory or for races |
//!
//! The tests run the examples, and check that the quoted messages are those of the code.

#[doc = include_str!("from_std.md")]
pub mod from_std {}

#[doc = include_str!("placement.md")]
pub mod placement {}

#[doc = include_str!("fork_join.md")]
pub mod fork_join {}

#[doc = include_str!("blocking.md")]
pub mod blocking {}

#[doc = include_str!("futures.md")]
pub mod futures {}

#[doc = include_str!("sanitizers.md")]
pub mod sanitizers {}
