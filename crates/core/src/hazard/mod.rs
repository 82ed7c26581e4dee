//! Protected reads of an item of another thread: its memory is not reused meanwhile.
//!
//! README.md beside this file has the steps and the proof.

use std::ptr;

use crate::atomic::{AtomicPtr, Ordering, const_fn, unless_weakened};
use crate::barrier::Barrier;

#[cfg(all(test, loom))]
mod model;

/// The item that the one reader looks at, as in a hazard pointer.
///
/// Budget: a load and a light barrier for each end of a use.
#[derive(Debug)]
#[repr(align(64))]
pub struct Hazard<T>(AtomicPtr<T>);

impl<T> Hazard<T> {
    const_fn! {
        /// Creates the word of a reader that looks at no item.
        #[allow(clippy::new_without_default, reason = "loom's atomics have no const default")]
        pub const fn new() -> Self {
            Self(AtomicPtr::new(ptr::null_mut()))
        }
    }

    /// Protects `item` until the result is dropped: if its own word says after this call that it is
    /// in use, then it is not reused before. One reader at a time.
    pub fn at(&self, item: &T, barrier: &impl Barrier) -> HazardGuard<'_, T> {
        // Relaxed: the barrier orders it before the load of the item's word.
        self.0.store(ptr::from_ref(item).cast_mut(), Ordering::Relaxed);
        if !cfg!(weaken = "hazard-barrier") {
            // Pairs with the light half in `is_at`.
            barrier.heavy();
        }
        HazardGuard(self)
    }

    /// Returns true if the reader looks at `item`. The item's word says that it is not in use any
    /// more; while this returns true, the caller must ask again before it reuses the item.
    #[inline]
    pub fn is_at(&self, item: &T, barrier: &impl Barrier) -> bool {
        // Pairs with the heavy half in `at`: either this sees the reader, or the reader sees the
        // end.
        barrier.light();
        // Acquire: pairs with the Release in the drop of `HazardGuard`.
        ptr::eq(self.0.load(Ordering::Acquire), item)
    }
}

/// A protected read in progress; dropping it ends the protection.
#[derive(Debug)]
#[must_use]
pub struct HazardGuard<'g, T>(&'g Hazard<T>);

impl<T> Drop for HazardGuard<'_, T> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `is_at`.
        self.0.0.store(ptr::null_mut(), unless_weakened!("hazard-end", Ordering::Release));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::barrier::Fences;
    use crate::barrier::testing::{Half, PassedHalves};

    #[test]
    fn a_look_holds_one_item_until_it_ends() {
        let (hazard, items) = (Hazard::new(), [0, 0]);
        assert!(!hazard.is_at(&items[0], &Fences));
        let guard = hazard.at(&items[0], &Fences);
        assert!(hazard.is_at(&items[0], &Fences) && !hazard.is_at(&items[1], &Fences));
        drop(guard);
        assert!(!hazard.is_at(&items[0], &Fences));
    }

    #[test]
    fn the_reader_passes_the_heavy_half_and_the_end_of_an_item_the_light_one() {
        let (hazard, halves) = (Hazard::new(), PassedHalves::default());
        let guard = hazard.at(&0, &halves);
        assert_eq!(halves.take(), [Half::Heavy]);
        drop(guard);
        assert!(!hazard.is_at(&0, &halves));
        assert_eq!(halves.take(), [Half::Light]);
    }
}
