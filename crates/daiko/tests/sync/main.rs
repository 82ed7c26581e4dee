//! The objects of `sync`, between fibers, migratable fibers and threads.

mod channels;
mod condvar;
mod gates;
mod locks;
mod once;
mod rwlock;
mod select_gates;
mod selects;
#[path = "../support/mod.rs"]
mod support;
