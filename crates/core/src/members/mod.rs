//! The number of members of a group that all of them leave.
//!
//! README.md beside this file has the protocol. Memory, waiting and waking are the caller's job.

use crate::atomic::{AtomicUsize, Ordering, const_fn, unless_weakened};

#[cfg(all(test, loom))]
mod model;

/// The number of members of a group; it has ended at 0.
///
/// Budget: one RMW for each method.
///
/// ```
/// use daiko_core::members::Members;
///
/// let group = Members::of_one();
/// group.join();
/// assert!(!group.leave() && !group.is_ended());
/// assert!(group.leave_alone(), "the only member left");
/// assert!(!group.come_back(), "the group has ended");
/// ```
#[derive(Debug)]
pub struct Members(AtomicUsize);

impl Members {
    const_fn! {
        /// Creates a group of one member.
        pub const fn of_one() -> Self {
            Self(AtomicUsize::new(1))
        }
    }

    /// Adds a member. Only for a member.
    pub fn join(&self) {
        // Relaxed: the caller is a member, so that the group does not end before.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Leaves the group. Returns true if the caller was the last member, which announces the end.
    #[must_use = "the last member announces the end"]
    pub fn leave(&self) -> bool {
        // Release: pairs with the Acquire of the last member here and in `leave_alone`, and with
        // that in `come_back`.
        let ordering = unless_weakened!("members-leave", Ordering::AcqRel);
        self.0.fetch_sub(1, ordering) == 1
    }

    /// Leaves the group and returns true if the caller is its only member. It announces the end.
    #[must_use = "the last member announces the end"]
    pub fn leave_alone(&self) -> bool {
        // Acquire: pairs with the Release in `leave`.
        let acquire = unless_weakened!("members-alone", Ordering::AcqRel);
        self.0.compare_exchange(1, 0, acquire, Ordering::Relaxed).is_ok()
    }

    /// Makes a caller that has left a member again. Returns false if the group has ended: then the
    /// caller sees the actions of all members.
    #[must_use = "the group may have ended"]
    pub fn come_back(&self) -> bool {
        // Acquire: pairs with the Release in `leave`.
        let acquire = unless_weakened!("members-return", Ordering::Acquire);
        let mut members = self.0.load(acquire);
        while members != 0 {
            match self.0.compare_exchange_weak(members, members + 1, Ordering::Relaxed, acquire) {
                Ok(_) => return true,
                Err(seen) => members = seen,
            }
        }
        false
    }

    /// Returns true if all members have left. The answer false may be out of date at once.
    pub fn is_ended(&self) -> bool {
        self.count() == 0
    }

    /// Returns the number of members at this moment.
    pub fn count(&self) -> usize {
        // Relaxed: nothing is read on the strength of it.
        self.0.load(Ordering::Relaxed)
    }
}
