//! The barrier between a store and a later load, in two halves of different cost.

use crate::atomic::{Ordering, fence};

/// A StoreLoad barrier in two halves: the side that passes often takes the light half, the side
/// that passes seldom the heavy one.
///
/// If thread A stores `x`, passes one half and loads `y`, and thread B stores `y`, passes the other
/// half and loads `x`, then at least one of them sees the other's store. Two heavy halves do as
/// well; two light halves do not.
///
/// Linux makes it lopsided: `membarrier` as the heavy half lets the light one be a compiler fence.
pub trait Barrier {
    /// Passes the half of the side that passes often.
    fn light(&self);

    /// Passes the half of the side that passes seldom.
    fn heavy(&self);
}

/// Both halves as a fence of the processor, which is the form that the models check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fences;

impl Barrier for Fences {
    #[inline]
    fn light(&self) {
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn heavy(&self) {
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) mod testing {
    //! A barrier that tells which of its halves were passed.

    use std::cell::RefCell;

    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    pub(crate) enum Half {
        Light,
        Heavy,
    }

    /// The halves that were passed, in order. The models cannot tell them: `Fences` has two alike.
    #[derive(Default)]
    pub(crate) struct PassedHalves(RefCell<Vec<Half>>);

    impl PassedHalves {
        /// Returns the halves that were passed since the last call.
        pub(crate) fn take(&self) -> Vec<Half> {
            self.0.take()
        }
    }

    impl Barrier for PassedHalves {
        fn light(&self) {
            self.0.borrow_mut().push(Half::Light);
        }

        fn heavy(&self) {
            self.0.borrow_mut().push(Half::Heavy);
        }
    }
}
