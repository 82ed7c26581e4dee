//! Requests by a signal: a handler that wakes a thread, and does nothing else.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;

use crate::descriptor::{Reserved, check};
use crate::thread::errno;

/// The requests of this process, for the handler.
static REQUESTS: OnceLock<SignalRequests> = OnceLock::new();

/// The requests that come to this process by a signal. There is one for a process.
#[derive(Debug)]
pub struct SignalRequests {
    event: Reserved<OwnedFd>,
    /// The process that takes requests: a forked child inherits the handler.
    process: u32,
}

impl SignalRequests {
    /// Takes the signal over. `None`: the program has a handler for it, or ignores it.
    ///
    /// # Errors
    ///
    /// If there is no descriptor left, or a call is denied; `AlreadyExists` if a signal was taken
    /// over before.
    pub fn take_over(signal: libc::c_int) -> io::Result<Option<&'static Self>> {
        // SAFETY: an action may be all zeros; the kernel writes it.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: reads the action into the live local.
        check(unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) })?;
        if action.sa_sigaction != libc::SIG_DFL {
            return Ok(None);
        }
        // SAFETY: the call takes plain integers.
        let event = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
        let event = Reserved::new(unsafe { OwnedFd::from_raw_fd(event) });
        let requests = SignalRequests { event, process: std::process::id() };
        REQUESTS.set(requests).map_err(|_| io::ErrorKind::AlreadyExists)?;
        action.sa_sigaction = request as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the handler is async-signal-safe: it makes two system calls, and keeps `errno`.
        check(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) })?;
        Ok(REQUESTS.get())
    }

    /// Sleeps until a request comes. Returns false if the kernel refuses the sleep.
    pub fn wait(&self) -> bool {
        let mut count = 0_u64;
        loop {
            // SAFETY: writes eight bytes to a live local of that size.
            let read = unsafe { libc::read(self.event.as_raw_fd(), (&raw mut count).cast(), 8) };
            if read == 8 {
                return true;
            }
            let mut poll =
                libc::pollfd { fd: self.event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one live entry.
            let polled = unsafe { libc::poll(&raw mut poll, 1, -1) };
            if polled < 0 && errno() != libc::EINTR {
                return false;
            }
        }
    }
}

/// Returns true if `handler` is the one of a signal that was taken over.
pub(crate) fn is_own(handler: libc::sighandler_t) -> bool {
    handler == request as *const () as usize
}

extern "C" fn request(_signal: libc::c_int) {
    let before = errno();
    // SAFETY: it has no argument.
    let process = unsafe { libc::getpid() } as u32;
    // Set before the handler was; the look takes no lock.
    if let Some(requests) = REQUESTS.get().filter(|requests| requests.process == process) {
        let one = 1_u64;
        // SAFETY: reads eight bytes of a live local of that size.
        let _ = unsafe { libc::write(requests.event.as_raw_fd(), (&raw const one).cast(), 8) };
    }
    // SAFETY: the location of the thread's own `errno`.
    unsafe { *libc::__errno_location() = before };
}
