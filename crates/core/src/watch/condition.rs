//! The conditions on a word that a watch waits for.

use std::fmt::Debug;
use std::ops::BitAnd;
use std::ptr::NonNull;

use super::entry::WatchWord;
use crate::atomic::{AtomicU32, AtomicU64, Ordering};

/// A condition on a word, as a level.
///
/// # Examples
///
/// ```
/// use daiko_core::watch::Condition;
///
/// assert!(Condition::ChangedFrom(3u32).holds(4));
/// assert!(Condition::AtLeast(3u32).holds(3));
/// assert!(!Condition::AnyBit(0b100u64).holds(0b011));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition<V> {
    /// Any other value than this.
    ChangedFrom(V),
    /// This value alone.
    Equal(V),
    /// This value or a greater one, unsigned: a counter that wraps around starts over.
    AtLeast(V),
    /// Any value with at least one of these bits.
    AnyBit(V),
}

impl<V: WatchValue> Condition<V> {
    /// Returns true if `value` satisfies the condition.
    #[inline]
    pub fn holds(self, value: V) -> bool {
        match self {
            Condition::ChangedFrom(old) => value != old,
            Condition::Equal(wanted) => value == wanted,
            Condition::AtLeast(least) => value >= least,
            Condition::AnyBit(mask) => value & mask != V::default(),
        }
    }
}

/// The value of a word that can be watched: `u32` or `u64`.
pub trait WatchValue:
    Sealed + Copy + Debug + Default + Ord + BitAnd<Output = Self> + Into<u64>
{
    /// The word itself.
    type Atomic;

    /// Loads the word.
    fn load(word: &Self::Atomic, ordering: Ordering) -> Self;

    /// Stores to the word.
    fn store(word: &Self::Atomic, value: Self, ordering: Ordering);

    /// Stores to the word and returns its previous value.
    fn swap(word: &Self::Atomic, value: Self, ordering: Ordering) -> Self;
}

/// Functions that the table needs of a [`WatchValue`]; it keeps other implementors out.
pub trait Sealed: Sized {
    #[doc(hidden)]
    fn watched(word: NonNull<<Self as WatchValue>::Atomic>, until: Condition<Self>) -> WatchWord
    where
        Self: WatchValue;
}

impl Sealed for u32 {
    fn watched(word: NonNull<AtomicU32>, until: Condition<u32>) -> WatchWord {
        WatchWord::U32(word, until)
    }
}

impl Sealed for u64 {
    fn watched(word: NonNull<AtomicU64>, until: Condition<u64>) -> WatchWord {
        WatchWord::U64(word, until)
    }
}

impl WatchValue for u32 {
    type Atomic = AtomicU32;

    #[inline]
    fn load(word: &AtomicU32, ordering: Ordering) -> u32 {
        word.load(ordering)
    }

    #[inline]
    fn store(word: &AtomicU32, value: u32, ordering: Ordering) {
        word.store(value, ordering);
    }

    #[inline]
    fn swap(word: &AtomicU32, value: u32, ordering: Ordering) -> u32 {
        word.swap(value, ordering)
    }
}

impl WatchValue for u64 {
    type Atomic = AtomicU64;

    #[inline]
    fn load(word: &AtomicU64, ordering: Ordering) -> u64 {
        word.load(ordering)
    }

    #[inline]
    fn store(word: &AtomicU64, value: u64, ordering: Ordering) {
        word.store(value, ordering);
    }

    #[inline]
    fn swap(word: &AtomicU64, value: u64, ordering: Ordering) -> u64 {
        word.swap(value, ordering)
    }
}
