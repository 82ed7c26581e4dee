//! What the protocols of core ask of the kernel.

use std::num::NonZeroU32;
use std::sync::atomic::{Ordering, compiler_fence, fence};

use daiko_core::barrier::Barrier;
use daiko_core::lock::Contender;
use daiko_sys::{membarrier, thread};

use crate::worker;

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
pub(crate) struct ThisThread(NonZeroU32);

impl ThisThread {
    pub(crate) fn get() -> Self {
        let known = worker::current().map(|worker| worker.thread.load(Ordering::Relaxed));
        let id = known.unwrap_or_else(thread::id);
        ThisThread(NonZeroU32::new(id).expect("the kernel has no thread 0"))
    }
}

impl Contender for ThisThread {
    fn id(&self) -> NonZeroU32 {
        self.0
    }

    fn relax(&self) {
        std::thread::yield_now();
    }
}
