//! What the protocols of core ask of the kernel.

use std::num::NonZeroU32;
use std::sync::atomic::{Ordering, compiler_fence, fence};

use daiko_core::barrier::Barrier;
use daiko_core::lock::Contender;
use daiko_sys::{membarrier, thread};

use crate::process;
use crate::worker::{self, Worker};

/// The barrier between making work available and looking for parked workers: where `membarrier`
/// works, it is paid by who parks alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Barriers {
    /// There is no `membarrier`.
    Fences,
    /// It reaches the threads of this process.
    Threads,
    /// It reaches all processes that have registered, as every process of the runtime does.
    Processes,
}

impl Barriers {
    /// What the kernel offers to this process, which is registered for it from now on.
    pub(crate) fn of_threads() -> Self {
        if membarrier::register() { Barriers::Threads } else { Barriers::Fences }
    }

    /// As [`of_threads`](Self::of_threads), to processes.
    pub(crate) fn of_processes() -> Self {
        if membarrier::register_globally() { Barriers::Processes } else { Barriers::Fences }
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

/// The calling thread, as a taker of queue locks.
pub struct ThisThread;

impl Contender for ThisThread {
    fn id(&self) -> NonZeroU32 {
        ThisWorker::get().id()
    }

    fn relax(&self) {
        std::thread::yield_now();
    }
}

/// As [`ThisThread`], for who asks once for more than that which worker it is, if any: good until the caller
/// suspends, as a mover may go on elsewhere.
#[derive(Clone, Copy)]
pub struct ThisWorker(pub Option<&'static Worker>);

impl ThisWorker {
    #[inline]
    pub fn get() -> Self {
        ThisWorker(worker::current())
    }
}

impl Contender for ThisWorker {
    #[inline]
    fn id(&self) -> NonZeroU32 {
        process::assert_in_call();
        let known = self.0.map(|worker| worker.thread.load(Ordering::Relaxed));
        NonZeroU32::new(known.unwrap_or_else(thread::id)).expect("the kernel has no thread 0")
    }

    fn relax(&self) {
        ThisThread.relax();
    }
}
