//! Notes: what public functions write down beside their work. Most programs write down nothing.

use crate::atomic::{AtomicU8, Ordering};

/// Runtime sections, and the robust lists of fibers: a runtime of this program has processes as
/// workers.
pub(crate) const SECTIONS: u8 = 1;
/// Holders of locks, and targets of waits.
pub(crate) const LOCKS: u8 = 2;

/// The kinds of notes, in one byte, so that a lock asks once for all of them.
static KINDS: AtomicU8 = AtomicU8::new(if cfg!(debug_assertions) { LOCKS } else { 0 });

/// The address of the byte, for debuggers.
pub(crate) const ADDRESS: *const () = (&raw const KINDS).cast();

/// Returns true if notes of this kind are written.
#[inline]
pub(crate) fn has(kind: u8) -> bool {
    kinds() & kind != 0
}

/// Returns true if there are notes of any kind, as in all builds with debug assertions.
#[inline]
pub fn has_any() -> bool {
    cfg!(debug_assertions) || kinds() != 0
}

#[inline]
fn kinds() -> u8 {
    // Relaxed: sections are turned on while there is one thread. A lock that was taken before its
    // kind was seen is not known, which is allowed.
    KINDS.load(Ordering::Relaxed)
}

pub(crate) fn begin(kind: u8) {
    KINDS.fetch_or(kind, Ordering::Relaxed);
}

pub(crate) fn end(kind: u8) {
    KINDS.fetch_and(!kind, Ordering::Relaxed);
}
