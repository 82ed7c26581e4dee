//! The kinds of fibers, and of the stacks that they need.

/// The workers that may run a fiber, the thread-local storage that it uses, and the place of its
/// packet.
///
/// ```text
/// 7      5   4         3         2      1     0
/// | unused | FOREIGN | OUTSIDE | LENT | OWN | MIGRATABLE |
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind(u8);

/// The fiber may change its worker after it started.
const MIGRATABLE: u8 = 1;
/// The fiber has thread-locals of its own; otherwise it borrows those of its worker.
///
/// A sanitizer keeps the state of a thread in thread-locals: in a build for one, all fibers borrow.
const OWN: u8 = if cfg!(daiko_sanitize) { 0 } else { 2 };

/// The fiber is a context that another kernel thread has lent.
const LENT: u8 = 4;

/// The packet is not on the stack.
const OUTSIDE: u8 = 8;

/// The fiber runs code of another language, which no unwind may pass.
const FOREIGN: u8 = 16;

impl Kind {
    /// The context of another kernel thread, with the thread-locals of that thread.
    pub(crate) const LENT: Self = Kind(LENT | OWN | MIGRATABLE);
    /// Thread-locals of its own, always on one worker.
    pub(crate) const PINNED: Self = Kind(OWN);
    /// Thread-locals of its own, on any worker.
    pub(crate) const MIGRATABLE: Self = Kind(OWN | MIGRATABLE);
    /// The thread-locals of its worker, where it stays.
    pub(crate) const BORROWED: Self = Kind(0);
    /// The thread-locals of the worker that it is on.
    pub(crate) const BORROWED_MIGRATABLE: Self = Kind(MIGRATABLE);

    /// Returns its bits, for debuggers.
    pub(crate) const fn bits(self) -> u64 {
        self.0 as u64
    }

    /// Returns true if the fiber may change its worker after it started.
    #[inline(always)]
    pub(crate) fn is_migratable(self) -> bool {
        self.0 & MIGRATABLE != 0
    }

    /// Returns true if the fiber has thread-locals of its own.
    #[inline(always)]
    pub(crate) fn is_own(self) -> bool {
        self.0 & OWN != 0
    }

    /// Returns the kind of the same fiber with its packet on the stack, or not.
    pub(crate) fn with_packet_outside(self, outside: bool) -> Self {
        Kind(if outside { self.0 | OUTSIDE } else { self.0 & !OUTSIDE })
    }

    /// Returns true if the packet is not on the stack.
    #[inline]
    pub(crate) fn has_packet_outside(self) -> bool {
        self.0 & OUTSIDE != 0
    }

    /// Returns the kind of the same fiber with code of another language, or not.
    pub(crate) fn with_foreign_code(self, foreign: bool) -> Self {
        Kind(if foreign { self.0 | FOREIGN } else { self.0 })
    }

    /// Returns true if the fiber runs code of another language. A cancel does not keep it from
    /// starting, because the argument of its function would be lost.
    #[inline(always)]
    pub(crate) fn is_foreign(self) -> bool {
        self.0 & FOREIGN != 0
    }

    /// Returns true if another kernel thread has lent the context.
    #[inline(always)]
    pub(crate) fn is_lent(self) -> bool {
        self.0 & LENT != 0
    }
}

/// A kind of stacks: their size, and whether they end in a thread control block; or the stacks of
/// contexts that are lent. An index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackKind(u8);

impl StackKind {
    /// The exponent of the smallest size.
    const SMALLEST: u32 = 14;
    /// Sizes up to 2^30 bytes.
    const SIZES: u8 = 17;
    /// Stacks of other kernel threads, which have lent their contexts. The blocks lie elsewhere.
    pub(crate) const LENT: Self = StackKind(2 * Self::SIZES);
    /// Number of kinds.
    pub(crate) const COUNT: usize = Self::LENT.0 as usize + 1;

    /// Returns the kind of stacks of at least `bytes`, at most 2^30. They end in a thread control
    /// block if they are `own`.
    pub(crate) fn new(bytes: usize, own: bool) -> Self {
        let exponent = bytes.next_power_of_two().trailing_zeros().max(Self::SMALLEST);
        let size = (exponent - Self::SMALLEST) as u8;
        StackKind(if own { size + Self::SIZES } else { size })
    }

    /// Returns the kind with this index.
    pub(crate) fn at(index: usize) -> Self {
        debug_assert!(index < Self::COUNT);
        StackKind(index as u8)
    }

    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Returns true if the stacks end in a thread control block.
    #[inline]
    pub(crate) fn is_own(self) -> bool {
        (Self::SIZES..Self::LENT.0).contains(&self.0)
    }

    /// Returns true if the stack is that of another kernel thread.
    #[inline]
    pub(crate) fn is_lent(self) -> bool {
        self == Self::LENT
    }

    /// Returns the bytes of a stack, which is not lent.
    pub(crate) fn bytes(self) -> usize {
        1 << (u32::from(self.0 % Self::SIZES) + Self::SMALLEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_stacks_keeps_size_and_block_apart() {
        for own in [false, true] {
            for (asked, bytes) in [(1, 1 << 14), (16_385, 1 << 15), (1 << 30, 1 << 30)] {
                let kind = StackKind::new(asked, own);
                assert_eq!((kind.bytes(), kind.is_own()), (bytes, own));
                assert_eq!(StackKind::at(kind.index()), kind);
            }
        }
    }
}
