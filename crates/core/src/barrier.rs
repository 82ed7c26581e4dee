//! The barrier between a store and a later load, at a price that the caller divides.

use crate::sync::{Ordering, fence};

/// A StoreLoad barrier in two halves: whoever stores often takes the light one, whoever seldom the heavy one.
///
/// If thread A stores `x`, passes one half and loads `y`, and thread B stores `y`, passes the other
/// half and loads `x`, then at least one of them sees the other's store. Two heavy halves do as well;
/// two light ones do not.
///
/// Linux makes it lopsided: `membarrier` as the heavy half lets the light one be a compiler fence.
pub trait Barrier {
    /// The half for the side that passes often.
    fn light(&self);

    /// The half for the side that passes seldom.
    fn heavy(&self);
}

/// Both halves as a fence of the processor, which is what the models check.
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
