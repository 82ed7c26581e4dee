//! The real-time signal by which a thread is woken.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use libc::{pthread_t, sigset_t};

/// A thread that waits for `SIGRTMIN`. The signal is blocked in it, so a signal that comes before
/// the wait stays pending.
#[derive(Debug, Default)]
pub(super) struct SignalTarget {
    /// Thread identifier, or 0 until attached.
    thread: AtomicU64,
}

impl SignalTarget {
    /// Makes the calling thread the target.
    pub(super) fn attach(&self) {
        let set = signal_set();
        // SAFETY: `set` is initialised; the old mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        // SAFETY: always safe to call.
        let thread: pthread_t = unsafe { libc::pthread_self() };
        // Relaxed: a sender reads it after this thread has reported its arrival to the conductor.
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// Waits for one signal. Called by the target.
    pub(super) fn wait(&self) {
        let set = signal_set();
        let mut signal = 0;
        // SAFETY: `set` is initialised and its signal blocked by `attach`;
        // `signal` is valid for writes.
        while unsafe { libc::sigwait(&set, &mut signal) } != 0 {}
    }

    /// Sends one signal.
    pub(super) fn signal(&self) {
        // Relaxed: see `attach`.
        let target = self.thread.load(Ordering::Relaxed);
        // SAFETY: `target` has attached and is joined only after the last
        // signal; a thread that has ended but was not joined may be signalled.
        while unsafe { libc::pthread_kill(target, libc::SIGRTMIN()) } == libc::EAGAIN {
            // The user's queue of pending signals is full.
            thread::yield_now();
        }
    }
}

fn signal_set() -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `set` is valid for writes, and initialised by the first call.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGRTMIN());
        set.assume_init()
    }
}
