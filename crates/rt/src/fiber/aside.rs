//! A word of the control block with two uses, of which a program has one.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::process::Estate;

/// What a fiber waits for, while that is tracked; where workers are processes nothing is, and it is where the fiber's
/// estate lies.
///
/// ```text
/// bits 63 to 56: the kind of what it waits for, 0: unknown, or an estate      bits 55 to 0: an address
/// ```
#[derive(Debug)]
pub(crate) struct Aside(AtomicU64);

/// Addresses of user space end below.
const ADDRESSES: u64 = 1 << 56;

impl Aside {
    pub(crate) const fn new() -> Self {
        Aside(AtomicU64::new(0))
    }

    /// Sets what the fiber waits for: the fiber itself, or who has its node in hand.
    pub(crate) fn set_target(&self, word: u64) {
        // Relaxed: who reads it has seen that the fiber is suspended, and stays it.
        self.0.store(word, Ordering::Relaxed);
    }

    /// As set last. The monitor, of a fiber that is suspended.
    pub(crate) fn target(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The estate, if there is one. Where workers are processes: the fiber, and who succeeds its worker.
    #[inline(always)]
    pub(crate) fn estate(&self) -> Option<NonNull<Estate>> {
        // Relaxed: whose fiber it is comes after who had it before.
        NonNull::new(ptr::with_exposed_provenance_mut(self.0.load(Ordering::Relaxed) as usize))
    }

    /// As for [`estate`](Self::estate), which then is this one.
    pub(crate) fn set_estate(&self, estate: Box<Estate>) -> NonNull<Estate> {
        let estate = NonNull::from(Box::leak(estate));
        self.0.store(estate.as_ptr().expose_provenance() as u64, Ordering::Relaxed);
        estate
    }

    /// The estate, which the block has no more. Of a block that no fiber uses, whatever workers are.
    pub(crate) fn take_estate(&self) -> Option<Box<Estate>> {
        let estate = (self.0.load(Ordering::Relaxed) < ADDRESSES).then(|| self.estate())??;
        self.0.store(0, Ordering::Relaxed);
        // SAFETY: `set_estate` has leaked it, and nobody else has it.
        Some(unsafe { Box::from_raw(estate.as_ptr()) })
    }
}
