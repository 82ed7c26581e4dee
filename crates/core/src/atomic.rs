//! The one door through which atomics enter this crate and those above it: `std`'s, loom's under
//! `cfg(loom)`, or Shuttle's under `cfg(shuttle)`. The crates above re-export it.
//!
//! Aliases, not re-exports: the crate's `clippy.toml` forbids the types behind them by name.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "this is the door")]
#![allow(dead_code, reason = "the module offers items that either build may need")]

#[cfg(loom)]
use loom as source;
#[cfg(shuttle)]
use shuttle as source;
#[cfg(not(any(loom, shuttle)))]
use std as source;

pub use source::sync::atomic::Ordering;

#[cfg(any(loom, shuttle))]
pub(crate) mod mortal;
#[cfg(any(loom, shuttle))]
pub use mortal::{AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

#[cfg(not(any(loom, shuttle)))]
mod plain {
    use std::sync::atomic;

    pub type AtomicBool = atomic::AtomicBool;
    pub type AtomicPtr<T> = atomic::AtomicPtr<T>;
    pub type AtomicU8 = atomic::AtomicU8;
    pub type AtomicU16 = atomic::AtomicU16;
    pub type AtomicU32 = atomic::AtomicU32;
    pub type AtomicU64 = atomic::AtomicU64;
    pub type AtomicUsize = atomic::AtomicUsize;
    pub type AtomicI8 = atomic::AtomicI8;
    pub type AtomicI16 = atomic::AtomicI16;
    pub type AtomicI32 = atomic::AtomicI32;
    pub type AtomicI64 = atomic::AtomicI64;
    pub type AtomicIsize = atomic::AtomicIsize;
}
#[cfg(not(any(loom, shuttle)))]
pub use plain::*;

#[inline(always)]
pub fn fence(ordering: Ordering) {
    source::sync::atomic::fence(ordering);
}

/// Acts as `fence(Acquire)` behind an operation on a word, which `load` loads with the given
/// ordering. ThreadSanitizer does not follow fences, and gets the load instead.
#[inline(always)]
pub fn acquire_fence<T>(load: impl FnOnce(Ordering) -> T) {
    if cfg!(daiko_sanitize = "thread") {
        load(Ordering::Acquire);
    } else {
        fence(Ordering::Acquire);
    }
}

/// Keeps the compiler alone from moving accesses. Models have no such compiler.
#[cfg(not(loom))]
#[inline(always)]
pub fn compiler_fence(ordering: Ordering) {
    std::sync::atomic::compiler_fence(ordering);
}

/// Acts as `fence(SeqCst)`, behind a read-modify-write of the same thread. On x86 that is one
/// already, as every locked instruction is (Intel SDM, volume 3, 9.2.3.9), and `mfence` would cost
/// as much again.
#[inline(always)]
pub(crate) fn fence_behind_rmw() {
    if cfg!(all(target_arch = "x86_64", not(any(loom, shuttle, miri)))) {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// Reads a word that no other thread can reach: no atomic access, which would keep the compiler
/// from comparing it in memory.
#[inline(always)]
pub(crate) fn read_alone<T>(word: &mut AtomicPtr<T>) -> *mut T {
    #[cfg(not(any(loom, shuttle)))]
    return *word.get_mut();
    #[cfg(any(loom, shuttle))]
    return word.load(Ordering::Relaxed);
}

#[cfg(not(loom))]
#[inline(always)]
pub fn spin_loop() {
    source::hint::spin_loop();
}

/// Number of spins of a thread in one execution before loom takes only one order of the rest. With
/// two preemptions no model gets there.
#[cfg(loom)]
const MOST_SPINS: u32 = 8;

#[cfg(loom)]
loom::thread_local! {
    static SPINS: std::cell::Cell<u32> = std::cell::Cell::new(0);
}

/// Bounds the spins. A switch of a spinning thread is no preemption to loom. So two threads may
/// spin in turns for ever while the holder of the lock has been preempted: executions without end,
/// and without a state that shorter executions lack. The remaining order lets the thread go on that
/// has spun least.
#[cfg(loom)]
pub fn spin_loop() {
    let spins = SPINS.with(|spins| spins.replace(spins.get() + 1));
    if spins >= MOST_SPINS {
        loom::skip_branch();
    }
    source::hint::spin_loop();
}

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;

/// `std`'s cell behind loom's interface, which tells reads from writes so that loom can find races.
#[cfg(not(loom))]
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Declares a constructor that is `const` except under loom: loom's atomics register themselves at
/// run time.
macro_rules! const_fn {
    ($(#[$meta:meta])* $vis:vis const fn $($rest:tt)*) => {
        #[cfg(not(loom))]
        $(#[$meta])*
        $vis const fn $($rest)*
        #[cfg(loom)]
        $(#[$meta])*
        $vis fn $($rest)*
    };
}
pub(crate) use const_fn;

/// The ordering that ships, or `Relaxed` in the one build that shows the protocol's model can fail.
macro_rules! unless_weakened {
    ($name:tt, $ordering:expr) => {
        if cfg!(weaken = $name) { $crate::atomic::Ordering::Relaxed } else { $ordering }
    };
}
pub(crate) use unless_weakened;
