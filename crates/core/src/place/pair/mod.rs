//! The choice of tasks that share a core: stalling beside computing.
//!
//! From Kida et al., "Scheduling for persistent memory under simultaneous multithreading" (P4 in
//! docs/papers.md). `assign` gives every task its place at once; `pick` chooses the next of a
//! queue, beside the fibers of the siblings.

mod assign;
mod pick;
mod word;

pub use assign::{SiblingUse, Site, Task, assign, can_cross};
pub use pick::{LOOKS, PASSES, POLITE_NS, ends_look, gives_way, pick, wanted};
pub use word::ClassWord;

/// The effect of a running task on its core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// The class was neither declared nor observed.
    #[default]
    Unknown,
    /// The task keeps the units of the core busy.
    Compute,
    /// The task waits for memory most of the time, so that the units are idle; with persistent
    /// memory, for flushes and fences.
    Stall,
}

impl Class {
    /// Returns the class that is this number (`class as u8`); [`Unknown`](Self::Unknown) for any
    /// other.
    #[inline]
    pub const fn from_bits(bits: u8) -> Self {
        const COMPUTE: u8 = Class::Compute as u8;
        const STALL: u8 = Class::Stall as u8;
        match bits {
            COMPUTE => Self::Compute,
            STALL => Self::Stall,
            _ => Self::Unknown,
        }
    }

    /// Returns true if two tasks of these classes use a core better than two alike: one computes,
    /// one stalls.
    ///
    /// # Examples
    ///
    /// ```
    /// use daiko_core::place::Class;
    ///
    /// assert!(Class::Stall.complements(Class::Compute));
    /// assert!(!Class::Stall.complements(Class::Stall));
    /// assert!(!Class::Unknown.complements(Class::Compute));
    /// ```
    #[inline]
    pub fn complements(self, other: Self) -> bool {
        matches!((self, other), (Self::Compute, Self::Stall) | (Self::Stall, Self::Compute))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
