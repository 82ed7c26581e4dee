//! The kernel operations that the protocols of core need.

use std::num::NonZeroU32;

use daiko_core::lock::Contender;
use daiko_sys::{policy, thread};

use crate::atomic::Ordering;
use crate::call::InCall;
use crate::worker::{self, Worker};

/// The calling thread, as a contender for queue locks: only in a runtime section, because a killed
/// holder's successor has to release the lock.
pub struct ThisThread<'c>(InCall<'c>);

impl<'c> ThisThread<'c> {
    /// Returns the calling thread. A constant: an object of no size on the stack would cost its
    /// function a frame.
    #[inline(always)]
    pub fn of(_: InCall<'c>) -> &'c Self {
        const { &ThisThread(InCall::OF_A_CONSTANT) }
    }
}

impl Contender for ThisThread<'_> {
    #[inline]
    fn id(&self) -> NonZeroU32 {
        ThisWorker::get(self.0).id()
    }

    fn relax(&self) {
        policy::give_way();
    }
}

/// The calling thread and its worker, if it is one: a [`ThisThread`] for a caller that needs the
/// worker several times. Good until the caller suspends, as a migratable fiber may go on elsewhere.
#[derive(Clone, Copy)]
pub struct ThisWorker<'c>(Option<&'static Worker>, InCall<'c>);

impl<'c> ThisWorker<'c> {
    #[inline]
    pub fn get(call: InCall<'c>) -> Self {
        ThisWorker(worker::current(), call)
    }

    /// Returns the worker.
    ///
    /// # Safety
    ///
    /// As for the [references](crate::client#safety) of `client`.
    #[inline]
    pub unsafe fn worker(self) -> Option<&'static Worker> {
        self.0
    }
}

impl Contender for ThisWorker<'_> {
    #[inline]
    fn id(&self) -> NonZeroU32 {
        id_of(self.0)
    }

    fn relax(&self) {
        ThisThread::of(self.1).relax();
    }
}

/// Returns the kernel's id of the calling thread.
pub(crate) fn thread_id() -> NonZeroU32 {
    id_of(worker::current())
}

/// Returns the kernel's id of the calling thread, which is `worker`, or no worker.
#[inline]
fn id_of(worker: Option<&Worker>) -> NonZeroU32 {
    let known = worker.map(|worker| worker.thread.load(Ordering::Relaxed));
    NonZeroU32::new(known.unwrap_or_else(thread::id)).expect("the kernel has no thread 0")
}
