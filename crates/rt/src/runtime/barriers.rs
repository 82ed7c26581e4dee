//! The barrier between changes that other workers look for and their parked marks.

use daiko_core::barrier::Barrier;
use daiko_core::fiber::Access;
use daiko_sys::membarrier;

use crate::atomic::{Ordering, compiler_fence, fence};

/// The barrier between adding work and looking for parked workers. Where `membarrier` works, only
/// the thread that parks pays for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Barriers {
    /// The kernel has no `membarrier`.
    Fences,
    /// The barrier reaches the threads of this process.
    Threads,
    /// The barrier reaches all processes that have registered, as every process of the runtime
    /// does.
    Processes,
}

impl Barriers {
    /// Registers this process, and returns the barrier that the kernel then offers for its threads.
    pub(crate) fn of_threads() -> Self {
        if membarrier::register() { Barriers::Threads } else { Barriers::Fences }
    }

    /// Registers this process, and returns the barrier that the kernel then offers for processes.
    pub(crate) fn of_processes() -> Self {
        if membarrier::register_globally() { Barriers::Processes } else { Barriers::Fences }
    }

    /// Returns the way in which workers access the words behind this barrier.
    pub(super) fn access(self) -> Access {
        match self {
            Barriers::Fences => Access::Exchange,
            Barriers::Threads | Barriers::Processes => Access::Plain,
        }
    }
}

impl Barrier for Barriers {
    #[inline]
    fn light(&self) {
        if *self == Barriers::Fences {
            fence(Ordering::SeqCst);
        } else {
            compiler_fence(Ordering::SeqCst);
        }
    }

    fn heavy(&self) {
        match self {
            Barriers::Fences => fence(Ordering::SeqCst),
            Barriers::Threads => membarrier::all_threads(),
            Barriers::Processes => membarrier::all_processes(),
        }
    }
}
