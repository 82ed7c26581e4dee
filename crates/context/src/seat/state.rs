//! The words of a seat, and the two ways to it: what assembly reads and writes.

use std::cell::Cell;
use std::ptr;

use crate::atomic::{AtomicBool, AtomicPtr, AtomicUsize};

/// The place of a worker. Its first three words are read and written by assembly.
#[repr(C, align(128))]
pub struct Seat {
    /// The thread pointer of the context that runs on the seat's kernel thread; 0 if the seat is
    /// free. Only that thread writes it.
    pub(crate) thread_pointer: AtomicUsize,
    /// The occupant; null if the seat is free.
    pub(crate) occupant: AtomicPtr<()>,
    /// The thread pointer of the kernel thread itself, for contexts that borrow its thread-locals.
    pub(super) own: AtomicUsize,
    /// True while a thread sits here.
    pub(super) is_taken: AtomicBool,
}

#[cfg(target_arch = "x86_64")]
impl Seat {
    /// The offset of the occupant, for assembly.
    pub(crate) const OCCUPANT: usize = std::mem::offset_of!(Seat, occupant);
}

/// Number of seats: more than threads that a process can have at a time.
pub(super) const SEATS: usize = 1 << 16;
/// Bytes of the table of seats. Its pages are committed when they are first used.
pub(crate) const TABLE_BYTES: usize = SEATS * size_of::<Seat>();

/// The address of the table of seats while `Finder::Gs` is in use; else 0. Written once.
pub(crate) static TABLE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The seat of the kernel thread that runs with this thread-local storage; null: none. Only for
    /// `Finder::ThreadLocal`.
    static SEAT: Cell<*const Seat> = const { Cell::new(ptr::null()) };
}

/// Returns the thread-local `SEAT`.
#[inline(never)]
pub(crate) fn of_thread() -> *const Seat {
    SEAT.get()
}

/// Sets the thread-local `SEAT`.
#[inline(never)]
pub(crate) fn set_of_thread(seat: *const Seat) {
    SEAT.set(seat);
}

const _: () = assert!(std::mem::offset_of!(Seat, thread_pointer) == 0);
