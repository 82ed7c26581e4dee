//! The kernel operations that the protocols of core need.

use std::num::NonZeroU32;

use daiko_core::lock::Contender;
use daiko_sys::thread;

use crate::atomic::Ordering;
use crate::process;
use crate::worker::{self, Worker};

/// The calling thread, as a contender for queue locks.
pub struct ThisThread;

impl Contender for ThisThread {
    fn id(&self) -> NonZeroU32 {
        ThisWorker::get().id()
    }

    fn relax(&self) {
        std::thread::yield_now();
    }
}

/// The calling thread and its worker, if it is one: a [`ThisThread`] for a caller that needs the
/// worker several times. Good until the caller suspends, as a migratable fiber may go on elsewhere.
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
