//! Processes that share a segment: some of them die, some write arbitrary words.

mod bad_peers;
mod services;
mod shm_kv;
#[path = "../support/mod.rs"]
mod support;
