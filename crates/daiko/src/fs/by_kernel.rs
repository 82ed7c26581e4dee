//! Calls on files that the kernel makes while their fiber is suspended, by the ring of its worker.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use daiko_rt::call::Call;
use daiko_rt::deadlock::{WaitKind, WaitTarget};
use daiko_rt::fiber::unwind;
use daiko_rt::worker::suspend;
use daiko_sys::selector::{FileCall, FileOperation};

use crate::caller;
use crate::net::Io;

/// Lets the kernel perform `operation`. Returns `None` if the caller is no fiber, or its worker has
/// no ring, so that a thread has to make the call.
///
/// Neither a cancel nor a deadline cuts it short, as the kernel uses the memory until the end.
///
/// # Panics
///
/// Inside [`no_suspend`](crate::no_suspend).
///
/// # Safety
///
/// The operation's memory is the caller's until this returns: to be written for a read, to be read
/// for a write.
pub(super) unsafe fn by_kernel(
    fd: BorrowedFd<'_>,
    operation: FileOperation,
) -> Option<io::Result<usize>> {
    let (worker, fiber) = caller::try_caller()?;
    if fiber.flags.has_any() {
        unwind::before_suspension(fiber);
    }
    let section = Call::enter();
    let call = FileCall::new(operation, NonNull::from(fiber).cast());
    let io = Io::of(worker.on_thread());
    // SAFETY: not even a cancel ends the wait below, so that this frame stays, and with it the
    // caller's descriptor and memory.
    if !unsafe { io.start(fd, NonNull::from(&call)) } {
        return None;
    }
    fiber.waiting_for(WaitTarget::of(WaitKind::Blocking), || {
        suspend::absorb_wake(section.token(), fiber);
    });
    Some(call.result())
}
