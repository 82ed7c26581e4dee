//! The targets of the waits of threads that run no fiber, while the holders of locks are tracked:
//! for debuggers.
//!
//! A table that neither allocates nor grows: a thread that finds no free slot is not known.

use daiko_core::field;
use daiko_core::inspect::ThreadWaitsLayout;
use daiko_sys::thread;

use super::target::WaitTarget;
use super::tracking::is_tracking;
use crate::atomic::{AtomicU32, AtomicU64, Ordering};

const SLOTS: usize = 256;

#[repr(C)]
struct ThreadSlot {
    /// The kernel's id of the thread; 0: the slot is free.
    thread: AtomicU32,
    /// The target, packed; 0 while it is not written.
    target: AtomicU64,
}

static THREADS: [ThreadSlot; SLOTS] =
    [const { ThreadSlot { thread: AtomicU32::new(0), target: AtomicU64::new(0) } }; SLOTS];

/// The layout of the table, for debuggers.
pub(crate) const LAYOUT: ThreadWaitsLayout = ThreadWaitsLayout {
    slots: (&raw const THREADS).cast(),
    slot_count: SLOTS as u64,
    slot_bytes: size_of::<ThreadSlot>() as u64,
    thread: field!(ThreadSlot, thread),
    target: field!(ThreadSlot, target),
};

/// Runs `wait`, in which the calling thread waits for `target`.
#[inline]
pub fn thread_waits_for<R>(target: impl FnOnce() -> WaitTarget, wait: impl FnOnce() -> R) -> R {
    struct Ended(&'static ThreadSlot);
    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.target.store(0, Ordering::Relaxed);
            // Release: pairs with the Acquire in `claim`: the next user of the slot writes later.
            self.0.thread.store(0, Ordering::Release);
        }
    }
    let _ended = is_tracking().then(|| claim(target())).flatten().map(Ended);
    wait()
}

#[cold]
fn claim(target: WaitTarget) -> Option<&'static ThreadSlot> {
    let id = thread::id();
    // Acquire: pairs with the Release in `Ended::drop`.
    let is_claimed = |slot: &&ThreadSlot| {
        slot.thread.compare_exchange(0, id, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let slot = THREADS.iter().find(is_claimed)?;
    slot.target.store(target.packed(), Ordering::Relaxed);
    Some(slot)
}
