//! The one door through which atomics enter this crate (`clippy.toml` of the workspace).
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "this is the door")]

use std::sync::atomic;

pub(crate) use atomic::Ordering;

pub(crate) type AtomicU32 = atomic::AtomicU32;
pub(crate) type AtomicU64 = atomic::AtomicU64;
pub(crate) type AtomicUsize = atomic::AtomicUsize;

#[inline(always)]
pub(crate) fn fence(ordering: Ordering) {
    atomic::fence(ordering);
}
