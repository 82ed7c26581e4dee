//! The one door through which atomics enter this crate (`clippy.toml` of the workspace).

pub(crate) use daiko_core::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8,
    AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, acquire_fence,
};
