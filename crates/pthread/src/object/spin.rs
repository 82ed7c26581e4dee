//! Spin locks.

use std::ffi::c_int;

use super::scratch::{Scratch, done};
use crate::atomic::{AtomicI32, Ordering};
use crate::home;

/// The value of a free lock.
const FREE: i32 = 1;
/// Looks at a held lock before the caller yields: the holder may be runnable here.
const SPINS: u32 = 100;

/// # Safety
///
/// As for `pthread_spin_lock`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_spin_lock(
    lock: *mut libc::pthread_spinlock_t,
) -> c_int {
    // SAFETY: by this function's contract.
    let lock = unsafe { &*lock.cast::<AtomicI32>() };
    loop {
        for _ in 0..SPINS {
            // Acquire: pairs with the Release of the C library's unlock, which stores `FREE`.
            if lock.load(Ordering::Relaxed) == FREE
                && lock.compare_exchange(FREE, 0, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return 0;
            }
            crate::atomic::spin_loop();
        }
        home::yield_now();
    }
}

/// See [`layout`](super::layout).
pub(super) fn check_layout() -> Option<()> {
    // SAFETY: the lock is there.
    let init = |lock| unsafe { libc::pthread_spin_init(lock, libc::PTHREAD_PROCESS_PRIVATE) };
    let mut lock = Scratch::<libc::pthread_spinlock_t, 1>::new(init)?;
    lock.has(&[(0, FREE as u32)])?;
    // SAFETY: the lock is initialised.
    done(unsafe { libc::pthread_spin_lock(lock.pointer()) })?;
    lock.has(&[])?;
    // SAFETY: as above; the caller holds it.
    done(unsafe { libc::pthread_spin_unlock(lock.pointer()) })?;
    lock.has(&[(0, FREE as u32)])
}
