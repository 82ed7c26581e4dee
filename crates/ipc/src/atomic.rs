//! The one door through which atomics enter this crate (`clippy.toml` of the workspace).

#![allow(unused_imports, reason = "shrink this list to what the crate uses")]
pub(crate) use daiko_core::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    spin_loop,
};
