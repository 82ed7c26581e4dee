//! The number of messages of a lane.

/// The slots of a lane, as this process knows them: the caller has the memory of the messages, one
/// slot for each.
///
/// ```
/// use daiko_core::robust::Slots;
///
/// assert_eq!(Slots::new(8).count(), 8);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    mask: u64,
}

impl Slots {
    /// Describes `count` slots.
    ///
    /// # Panics
    ///
    /// If the number is no power of two.
    #[inline]
    pub const fn new(count: usize) -> Self {
        assert!(count.is_power_of_two(), "the number of slots is a power of two");
        Self { mask: count as u64 - 1 }
    }

    /// Returns the number of slots.
    #[inline]
    pub const fn count(self) -> u64 {
        self.mask + 1
    }

    /// Returns the slot of the message number `at`; never one outside.
    #[inline]
    pub(super) const fn slot(self, at: u64) -> usize {
        (at & self.mask) as usize
    }
}
