//! Values side by side, without a lock.

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::{Bytes, Segment, SegmentError};
use bytemuck::{Pod, bytes_of};

use super::kind;
use super::placed::{Placed, Shape, agreed};

/// A fixed number of values in a segment, all zeros at first.
///
/// It has no lock: a value is copied byte by byte, so a reader may get a part of a change that is
/// being made. Where that matters, its users exclude each other by a lock of their own, or write a
/// version before and after each change, which a reader compares (a *seqlock*). Without such an
/// order, a change is seen by other threads and processes at some time, as one by a relaxed atomic
/// access.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::{Array, Segment};
///
/// let segment = Segment::anonymous(1 << 20)?;
/// let prices = Array::<[u32; 2]>::create(&segment, "prices", 100)?;
/// prices.set(99, &[3, 5]);
///
/// // In any process.
/// let prices = Array::<[u32; 2]>::open(&segment, "prices")?;
/// assert_eq!((prices.len(), prices.get(99), prices.get(0)), (100, [3, 5], [0, 0]));
/// # Ok::<(), daiko::shm::SegmentError>(())
/// ```
pub struct Array<T: Pod> {
    placed: Placed<ArrayShape<T>>,
}

/// Number of values.
struct ArrayShape<T> {
    len: usize,
    values: PhantomData<fn() -> T>,
}

impl<T: Pod> Array<T> {
    /// Makes an array of `len` values in `segment`.
    ///
    /// # Errors
    ///
    /// If there is an object of this name, or no room for it; [`SegmentError::Impossible`] if it
    /// has no bytes, or more than there are addresses.
    pub fn create(segment: &Segment, name: &str, len: usize) -> Result<Self, SegmentError> {
        Ok(Array { placed: Placed::create(segment, name, ArrayShape::new(len), |_| ())? })
    }

    /// Opens the array of this name, of any length.
    ///
    /// # Errors
    ///
    /// If there is none, it is another kind of object, or its values have another type: one of
    /// another size, alignment or name, modules aside.
    pub fn open(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Ok(Array { placed: Placed::open(segment, name)? })
    }

    /// Returns the number of values, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "no array is empty")]
    #[inline]
    pub fn len(&self) -> usize {
        self.placed.shape.len
    }

    /// Returns a copy of a value.
    ///
    /// If the segment's file was cut short, the value may be of zeros:
    /// [`Segment::check_whole`] tells.
    ///
    /// # Panics
    ///
    /// If `index` is not less than the [length](Self::len).
    #[inline]
    pub fn get(&self, index: usize) -> T {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: there is room for a value, and it lies outside the segment.
        unsafe { self.bytes(index).read_all_to(value.as_mut_ptr().cast()) };
        // SAFETY: all bytes have been written, and every pattern of bits is valid.
        unsafe { value.assume_init() }
    }

    /// Writes a value.
    ///
    /// # Panics
    ///
    /// As [`get`](Self::get).
    #[inline]
    pub fn set(&self, index: usize, value: &T) {
        self.bytes(index).write(bytes_of(value));
    }

    #[inline]
    fn bytes(&self, index: usize) -> Bytes<'_> {
        let len = self.len();
        assert!(index < len, "value {index} of {len}");
        self.placed.object.bytes(index * size_of::<T>(), size_of::<T>())
    }
}

impl<T: Pod> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Array").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<T: Pod> ArrayShape<T> {
    /// Returns the shape, if it is possible.
    fn new(len: usize) -> Option<Self> {
        let is_possible = len.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes > 0);
        is_possible.then_some(ArrayShape { len, values: PhantomData })
    }
}

impl<T> Clone for ArrayShape<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ArrayShape<T> {}

impl<T: Pod> Shape for ArrayShape<T> {
    const KIND: u32 = kind::ARRAY;
    const IS: &'static str = "an array";
    const LIMITS: &'static str = "one value or more, of a byte or more";

    fn of([low, high, ..]: [u32; 4]) -> Option<Self> {
        let len = u64::from(high) << 32 | u64::from(low);
        Self::new(len.try_into().ok()?)
    }

    fn chosen(self) -> [u32; 4] {
        let len = self.len as u64;
        [len as u32, (len >> 32) as u32, 0, 0]
    }

    fn bytes(self) -> Option<usize> {
        self.len.checked_mul(size_of::<T>())
    }

    fn agreed() -> u64 {
        agreed::<T>()
    }
}
