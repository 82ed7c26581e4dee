//! The conditions on a word that a watch waits for.

use std::fmt::Debug;
use std::ptr::NonNull;

use self::sealed::Sealed;
use super::entry::WatchWord;
use crate::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

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
/// assert!(!Condition::AtLeast(-1i8).holds(-2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition<V> {
    /// Any other value than this.
    ChangedFrom(V),
    /// This value alone.
    Equal(V),
    /// This value or a greater one: a counter that wraps around starts over.
    AtLeast(V),
    /// Any value with at least one of these bits.
    AnyBit(V),
}

impl<V: WatchValue> Condition<V> {
    /// Returns true if `value` satisfies the condition.
    #[inline]
    pub fn holds(self, value: V) -> bool {
        self.on_bits().holds(value.to_bits())
    }

    /// Returns the condition on the bits of a value.
    #[inline]
    pub(super) fn on_bits(self) -> BitsCondition {
        let until = match self {
            Condition::ChangedFrom(old) => Condition::ChangedFrom(old.to_bits()),
            Condition::Equal(wanted) => Condition::Equal(wanted.to_bits()),
            Condition::AtLeast(least) => Condition::AtLeast(least.to_bits()),
            Condition::AnyBit(mask) => Condition::AnyBit(mask.to_bits()),
        };
        BitsCondition { until, sign: V::SIGN }
    }
}

/// A condition with the type of the value taken out: on its bits, as an unsigned number.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct BitsCondition {
    until: Condition<u64>,
    /// The bit that makes a value negative; 0: none does.
    sign: u64,
}

impl BitsCondition {
    #[inline]
    pub(super) fn holds(self, bits: u64) -> bool {
        match self.until {
            Condition::ChangedFrom(old) => bits != old,
            Condition::Equal(wanted) => bits == wanted,
            // With the sign reversed, negative numbers come first.
            Condition::AtLeast(least) => bits ^ self.sign >= least ^ self.sign,
            Condition::AnyBit(mask) => bits & mask != 0,
        }
    }
}

mod sealed {
    /// Keeps other implementors out.
    pub trait Sealed {}
}

/// The value of a word that can be watched: an integer of up to 64 bits, a `bool`, or a pointer.
pub trait WatchValue: Sealed + Copy + Debug {
    /// The word itself.
    type Atomic;

    /// The bit of [`to_bits`](Self::to_bits) that makes a value negative; 0: none does.
    const SIGN: u64;

    /// Returns the word and its condition, with the type of the value taken out.
    #[doc(hidden)]
    fn watched(word: NonNull<Self::Atomic>, until: Condition<Self>) -> WatchWord;

    /// Returns the bits of the value, with zeros above.
    fn to_bits(self) -> u64;

    /// Returns the value with these bits, which a value gave.
    fn from_bits(bits: u64) -> Self;

    /// Returns the value that a look at `word` saw as `bits`; `None`: another look is due.
    #[inline]
    fn seen(bits: u64, _word: &Self::Atomic, _until: Condition<Self>) -> Option<Self> {
        Some(Self::from_bits(bits))
    }

    /// Returns true if it has at least one bit of `mask`.
    #[inline]
    fn has_bit_of(self, mask: Self) -> bool {
        self.to_bits() & mask.to_bits() != 0
    }

    /// Loads the word.
    fn load(word: &Self::Atomic, ordering: Ordering) -> Self;

    /// Stores to the word.
    fn store(word: &Self::Atomic, value: Self, ordering: Ordering);

    /// Stores to the word and returns its previous value.
    fn swap(word: &Self::Atomic, value: Self, ordering: Ordering) -> Self;
}

/// Implements [`WatchValue`] for a value with a word that is watched as an atomic of the same size.
macro_rules! watch_value {
    ($value:ty, $atomic:ty as $word:ident, $sign:expr, $to:expr, $from:expr) => {
        impl Sealed for $value {}

        impl WatchValue for $value {
            type Atomic = $atomic;
            const SIGN: u64 = $sign;

            #[inline]
            fn watched(word: NonNull<$atomic>, until: Condition<$value>) -> WatchWord {
                WatchWord::$word(word.cast(), until.on_bits())
            }

            #[inline]
            fn to_bits(self) -> u64 {
                $to(self)
            }

            #[inline]
            fn from_bits(bits: u64) -> Self {
                $from(bits)
            }

            #[inline]
            fn load(word: &$atomic, ordering: Ordering) -> Self {
                word.load(ordering)
            }

            #[inline]
            fn store(word: &$atomic, value: Self, ordering: Ordering) {
                word.store(value, ordering);
            }

            #[inline]
            fn swap(word: &$atomic, value: Self, ordering: Ordering) -> Self {
                word.swap(value, ordering)
            }
        }
    };
}

watch_value!(u8, AtomicU8 as U8, 0, u64::from, |bits| bits as u8);
watch_value!(u16, AtomicU16 as U16, 0, u64::from, |bits| bits as u16);
watch_value!(u32, AtomicU32 as U32, 0, u64::from, |bits| bits as u32);
watch_value!(u64, AtomicU64 as U64, 0, |bits| bits, |bits| bits);
impl<T> Sealed for *mut T {}

impl<T> WatchValue for *mut T {
    type Atomic = AtomicPtr<T>;
    const SIGN: u64 = 0;

    #[inline]
    fn watched(word: NonNull<AtomicPtr<T>>, until: Condition<*mut T>) -> WatchWord {
        WatchWord::Pointer(word.cast(), until.on_bits())
    }

    /// Returns the address.
    #[inline]
    fn to_bits(self) -> u64 {
        self.addr() as u64
    }

    /// Returns a pointer that has this address, and leads nowhere.
    #[inline]
    fn from_bits(bits: u64) -> Self {
        std::ptr::without_provenance_mut(bits as usize)
    }

    /// Loads the pointer once more, since an address does not lead to its target.
    #[inline]
    fn seen(_: u64, word: &AtomicPtr<T>, until: Condition<*mut T>) -> Option<Self> {
        // Acquire: pairs with the Release of the word's writer.
        let now = word.load(Ordering::Acquire);
        until.holds(now).then_some(now)
    }

    #[inline]
    fn load(word: &AtomicPtr<T>, ordering: Ordering) -> Self {
        word.load(ordering)
    }

    #[inline]
    fn store(word: &AtomicPtr<T>, value: Self, ordering: Ordering) {
        word.store(value, ordering);
    }

    #[inline]
    fn swap(word: &AtomicPtr<T>, value: Self, ordering: Ordering) -> Self {
        word.swap(value, ordering)
    }
}

/// Words that are watched as the unsigned word of their size: std's have its layout.
#[cfg(not(any(loom, shuttle)))]
mod same_size {
    use super::*;
    use crate::atomic::{
        AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicUsize,
    };

    const _: () = assert!(size_of::<usize>() == size_of::<u64>());

    watch_value!(bool, AtomicBool as U8, 0, u64::from, |bits| bits != 0);
    watch_value!(i8, AtomicI8 as U8, 1 << 7, |value| u64::from(value as u8), |bits| bits as i8);
    watch_value!(i16, AtomicI16 as U16, 1 << 15, |value| u64::from(value as u16), |bits| bits
        as i16);
    watch_value!(i32, AtomicI32 as U32, 1 << 31, |value| u64::from(value as u32), |bits| bits
        as i32);
    watch_value!(i64, AtomicI64 as U64, 1 << 63, |value| value as u64, |bits| bits as i64);
    watch_value!(usize, AtomicUsize as U64, 0, |value| value as u64, |bits| bits as usize);
    watch_value!(isize, AtomicIsize as U64, 1 << 63, |value| value as u64, |bits| bits as isize);
}
