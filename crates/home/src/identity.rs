//! Changes of the user and group, which the C library makes in all kernel threads.
//!
//! `setuid` and its kin mark each thread and send it a signal, whose handler makes the change and
//! removes the mark: from the block that the thread pointer names. In a thread that runs a context
//! with a block of its own, that is the wrong block. The mark of the thread stays, and the library
//! sends the signal again, without end. So the handler runs with the thread pointer of the kernel
//! thread.
//!
//! A home's kernel thread has the thread pointer that it lends: the handler runs there as it is.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use daiko_context::seat;
use daiko_sys::kernel_local;

use crate::action::exchange;

/// The signal, which the library keeps for itself: `sigaction` refuses it.
pub(crate) const SIGSETXID: c_int = 33;

type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The handler of the library.
static LIBRARY: OnceLock<Handler> = OnceLock::new();

/// Makes the library's handler run with the thread pointer of the kernel thread. Called after a
/// thread was started, as the library installs it then. Without a handler there is nothing to do.
pub fn wrap_handler() {
    let Some(library) = exchange(SIGSETXID, None) else { return };
    if !library.is_handled() {
        return;
    }
    // SAFETY: a handler that takes three arguments, since the library asks for them.
    let handler = unsafe { std::mem::transmute::<usize, Handler>(library.handler) };
    if LIBRARY.set(handler).is_ok() {
        let mut own = library;
        own.handler = run_on_kernel_thread as *const () as usize;
        let _ = exchange(SIGSETXID, Some(&own));
    }
}

unsafe extern "C" fn run_on_kernel_thread(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    let Some(library) = LIBRARY.get() else { return };
    // SAFETY: the kernel passes these.
    let run = || unsafe { library(signal, info, context) };
    // A home shares its thread-locals with the context, which may renew them between two looks; its
    // kernel thread has no seat.
    if kernel_local::is_contexts() && !kernel_local::is_lender() && seat::is_here() {
        // SAFETY: just asked.
        unsafe { seat::with_own_thread_pointer(run) };
    } else {
        run();
    }
}
