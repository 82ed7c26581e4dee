//! The descriptor of a poller: it ends the sleep of the poller's worker.
//!
//! The worker arms it before it sleeps, with the selector that it sleeps in. That reports edges,
//! so the worker also asks whether the descriptor is readable already. As long as it is, as one
//! that has hung up or that the poller does not empty, it cannot end a sleep: the poller is polled
//! now and then, as one without a descriptor, and the worker is kept from neither sleep nor looks.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use daiko_sys::selector::{self, Interest};

use crate::atomic::{AtomicBool, Ordering};
use crate::net::descriptor_state::DescriptorState;
use daiko_rt::call::InCall;
use daiko_rt::worker::Worker;

pub(super) struct WakeFd {
    fd: OwnedFd,
    state: Arc<DescriptorState>,
    /// True if it cannot end a sleep now. Written and read under the lock of the pollers.
    is_useless: AtomicBool,
}

impl WakeFd {
    pub(super) fn new(fd: OwnedFd) -> Self {
        WakeFd { fd, state: DescriptorState::new(), is_useless: AtomicBool::new(false) }
    }

    /// Returns true if it ends a sleep.
    pub(super) fn ends_sleeps(&self) -> bool {
        !self.is_useless.load(Ordering::Relaxed)
    }

    /// Prepares a sleep of `here`, the caller's worker. Returns true if the worker has to look
    /// again at its sources first, or to choose where it sleeps: it has just been armed, or has
    /// become readable.
    ///
    /// An edge after this look ends the sleep; data that came before is readable.
    pub(super) fn prepare_sleep(&self, call: InCall<'_>, here: &Worker) -> bool {
        let is_readable =
            || selector::wait_for(self.fd.as_fd(), Interest::READ, Some(Duration::ZERO));
        let armed = self.state.arm(call, self.fd.as_fd(), here);
        // A descriptor that the kernel refuses is of no use, like one that is readable.
        let is_useless = armed.is_err() || is_readable().unwrap_or(true);
        let was_useless = self.is_useless.swap(is_useless, Ordering::Relaxed);
        armed.unwrap_or(false) || is_useless && !was_useless
    }

    /// Ends the reports of the kernel, until the next [`prepare_sleep`](Self::prepare_sleep).
    pub(super) fn disarm(&self) {
        self.state.disarm(self.fd.as_fd());
        self.is_useless.store(false, Ordering::Relaxed);
    }
}

impl Drop for WakeFd {
    fn drop(&mut self) {
        // Before the descriptor is closed.
        self.state.close(self.fd.as_fd());
    }
}
