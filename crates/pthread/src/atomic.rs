//! The one door through which atomics enter this crate (`clippy.toml` of the workspace).

pub(crate) use daiko_core::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    spin_loop,
};
