//! The attachment that holds an object.

use std::num::NonZeroU32;

/// A process's attachment to the memory in which objects lie: its place in the table of all
/// attachments, and its number among those that had that place. No two attachments are ever the
/// same, so that an exchange that names one cannot hit another.
///
/// ```
/// use daiko_core::robust::Holder;
///
/// let holder = Holder::new(3, 1.try_into()?);
/// assert_eq!((holder.index(), holder.generation().get()), (3, 1));
/// # Ok::<(), std::num::TryFromIntError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    index: u16,
    generation: NonZeroU32,
}

impl Holder {
    /// Creates the `generation`-th attachment at `index`.
    pub const fn new(index: u16, generation: NonZeroU32) -> Self {
        Self { index, generation }
    }

    /// Returns its place in the table.
    pub const fn index(self) -> u16 {
        self.index
    }

    /// Returns its number among the attachments that had its place.
    pub const fn generation(self) -> NonZeroU32 {
        self.generation
    }

    /// Returns the attachment as the upper 48 bits of a word, which are not all 0.
    ///
    /// ```text
    /// 63        32 31   16 15       0
    /// | generation | index | unused |
    /// ```
    pub const fn bits(self) -> u64 {
        (self.generation.get() as u64) << 32 | (self.index as u64) << 16
    }

    /// Returns the attachment that the upper 48 bits of a word name; none, if the generation is 0.
    pub const fn of(word: u64) -> Option<Self> {
        match NonZeroU32::new((word >> 32) as u32) {
            Some(generation) => Some(Self { index: (word >> 16) as u16, generation }),
            None => None,
        }
    }
}
