//! The thread pointer and the seat on processors that have a single register for user code.
//!
//! There is no register for the seat: each context finds it by a thread-local, which is handed on
//! when the thread pointer changes.

use std::io;
use std::ptr;

#[cfg(target_arch = "aarch64")]
use super::aarch64::thread_register::write_thread_pointer;
#[cfg(target_arch = "riscv64")]
use super::riscv64::thread_register::write_thread_pointer;
use crate::atomic::Ordering;
use crate::seat::state::{self, Seat};

/// True: user code writes the thread pointer.
pub(crate) const HAS_FAST_POINTER: bool = true;

/// Returns false: there is no register for the seat.
pub(crate) fn has_seat_register() -> bool {
    false
}

/// Returns the register of the seat.
///
/// # Errors
///
/// There is none.
pub(crate) fn seat_register() -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sets the register of the seat.
///
/// # Errors
///
/// There is none.
pub(crate) fn set_seat_register(_seat: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the seat of the calling context; null if it sits on none.
///
/// # Safety
///
/// None here.
pub(crate) unsafe fn seat_of_context(_table: usize) -> *const Seat {
    state::of_thread()
}

/// Returns the occupant of the seat of the calling context.
///
/// # Safety
///
/// The calling context sits on a seat.
pub(crate) unsafe fn occupant_by_register() -> *const () {
    // SAFETY: a seat, by this function's contract, and seats are never unmapped.
    unsafe { (*state::of_thread()).occupant.load(Ordering::Relaxed) }
}

/// Returns the seat of the calling context.
///
/// # Safety
///
/// The calling context sits on a seat.
pub(crate) unsafe fn seat_here() -> *const Seat {
    state::of_thread()
}

/// Lets the running context go on under another thread pointer. The seat of the kernel thread goes
/// along. Called by the assembly of switches as well.
///
/// # Safety
///
/// `pointer` is the thread pointer of a control block that no other thread runs with. The caller
/// sits on a seat, and keeps no address of a thread-local from before.
#[inline(never)]
pub(crate) unsafe extern "C" fn set_thread_pointer(pointer: usize) {
    // The accesses are functions that are not inlined, since the thread pointer changes between
    // them, and with it the address of the thread-local.
    let seat = state::of_thread();
    // A signal handler that comes before the last line finds no seat, instead of the one at which
    // the other context was left.
    state::set_of_thread(ptr::null());
    // SAFETY: by this function's contract.
    unsafe { write_thread_pointer(pointer) };
    state::set_of_thread(seat);
    // SAFETY: seats are never unmapped, and the caller sits on this one.
    unsafe { (*seat).thread_pointer.store(pointer, Ordering::Relaxed) };
}
