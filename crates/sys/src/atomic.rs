//! The one door through which atomics enter this crate (`clippy.toml` of the workspace).

#[cfg(test)]
pub(crate) use daiko_core::atomic::AtomicI32;
pub(crate) use daiko_core::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
