//! The stacks to which kernel threads keep while their contexts are lent.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use daiko_sys::arena::Arena;

use crate::mask::HeldSignals;

/// A stack for the few calls of a kernel thread that sleeps. Many share a page: each thread of the
/// program has one.
pub(crate) struct KeeperStack(NonNull<u8>);

/// Bytes of a stack. Optimised, at most 184 were used by all test programs; signals are blocked.
const SIZE: usize = if cfg!(debug_assertions) { 16 << 10 } else { 2 << 10 };
const LAYOUT: Layout = match Layout::from_size_align(SIZE, 64) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

/// The lowest word of each stack.
const UNTOUCHED: u64 = 0x5bd1_e995_9bd1_b1e3;

/// The memory of all stacks.
static STACKS: Mutex<Option<Arena>> = Mutex::new(None);

/// Keeps other threads from taking and returning stacks.
pub(crate) fn lock() -> impl Drop {
    locked()
}

fn locked() -> MutexGuard<'static, Option<Arena>> {
    STACKS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KeeperStack {
    /// Takes a stack. `None`: there is no memory.
    pub(crate) fn new() -> Option<Self> {
        // A handler may start a thread.
        let _signals = HeldSignals::hold();
        let start = locked().get_or_insert_with(Arena::private).alloc(LAYOUT).ok()?;
        // SAFETY: the memory is the caller's, and aligned.
        unsafe { start.cast::<u64>().write(UNTOUCHED) };
        Some(KeeperStack(start))
    }

    /// Returns the upper end.
    pub(crate) fn top(&self) -> *mut u8 {
        // SAFETY: the end of its memory.
        unsafe { self.0.as_ptr().add(SIZE) }
    }
}

impl Drop for KeeperStack {
    fn drop(&mut self) {
        // SAFETY: written by `new`; the memory lives until below.
        let lowest = unsafe { self.0.cast::<u64>().read() };
        assert_eq!(lowest, UNTOUCHED, "the stack of a home's kernel thread has overflowed");
        let _signals = HeldSignals::hold();
        if let Some(stacks) = &*locked() {
            // SAFETY: `new` has taken it there, with this layout; nothing runs on it any more.
            unsafe { stacks.free(self.0, LAYOUT) };
        }
    }
}
