//! What the protocols of core ask of the kernel.

use std::num::NonZeroU32;
use std::sync::atomic::{Ordering, compiler_fence, fence};

use daiko_core::barrier::Barrier;
use daiko_core::lock::Contender;
use daiko_sys::{membarrier, thread};

use crate::worker::{self, Worker};

/// The barrier between making work available and looking for parked workers: where `membarrier`
/// works, it is paid by who parks alone.
pub(crate) struct Barriers {
    pub(crate) membarrier: bool,
}

impl Barrier for Barriers {
    #[inline]
    fn light(&self) {
        if self.membarrier {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    fn heavy(&self) {
        if self.membarrier {
            membarrier::all_threads();
        } else {
            fence(Ordering::SeqCst);
        }
    }
}

/// The calling thread, as a taker of queue locks.
pub(crate) struct ThisThread;

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
pub(crate) struct ThisWorker(pub(crate) Option<&'static Worker>);

impl ThisWorker {
    #[inline]
    pub(crate) fn get() -> Self {
        ThisWorker(worker::current())
    }
}

impl Contender for ThisWorker {
    #[inline]
    fn id(&self) -> NonZeroU32 {
        let known = self.0.map(|worker| worker.thread.load(Ordering::Relaxed));
        NonZeroU32::new(known.unwrap_or_else(thread::id)).expect("the kernel has no thread 0")
    }

    fn relax(&self) {
        ThisThread.relax();
    }
}
