//! Plain words in a segment.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use super::kind;
use super::placed::{Placed, Shape, agreed};
use crate::atomic::{AtomicU32, AtomicU64};
use crate::{Segment, SegmentError, Shared};

/// Atomic words in a segment, which all processes load and store: flags, counters, and words that
/// fibers watch (`daiko::watch`).
///
/// A process that has stored into a word wakes no waiter; agents of the waiters' processes poll the
/// words that are watched.
///
/// If the segment's file is cut short, the words of this process are zeros:
/// [`Segment::is_truncated`] says so.
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::{Segment, Words};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// let segment = Segment::anonymous(1 << 20)?;
/// let progress = Words::<AtomicU64>::open_or_create(&segment, "progress", 16)?;
/// progress[3].store(7, Ordering::Release);
///
/// // In another process:
/// let theirs = Words::<AtomicU64>::open(&segment, "progress")?;
/// assert_eq!((theirs.len(), theirs[3].load(Ordering::Acquire)), (16, 7));
/// # Ok::<(), daiko::shm::SegmentError>(())
/// ```
pub struct Words<A> {
    placed: Placed<WordsShape<A>>,
}

/// A word of [`Words`]: `AtomicU32` or `AtomicU64`.
pub trait SharedWord: Shared + Send + Sync + 'static {
    /// Returns the hash on which the users agree.
    #[doc(hidden)]
    fn agreed() -> u64;
}

impl SharedWord for AtomicU32 {
    fn agreed() -> u64 {
        agreed::<u32>()
    }
}

impl SharedWord for AtomicU64 {
    fn agreed() -> u64 {
        agreed::<u64>()
    }
}

/// All bytes are words.
struct WordsShape<A> {
    count: u32,
    word: PhantomData<fn() -> A>,
}

impl<A> Clone for WordsShape<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for WordsShape<A> {}

impl<A: SharedWord> Shape for WordsShape<A> {
    const KIND: u32 = kind::WORDS;
    const IS: &'static str = "words";
    const LIMITS: &'static str = "1 to 4294967295 words";

    fn of([count, ..]: [u32; 4]) -> Option<Self> {
        (count > 0).then_some(WordsShape { count, word: PhantomData })
    }

    fn chosen(self) -> [u32; 4] {
        [self.count, 0, 0, 0]
    }

    fn bytes(self) -> Option<usize> {
        (self.count as usize).checked_mul(size_of::<A>())
    }

    fn agreed() -> u64 {
        A::agreed()
    }
}

impl<A: SharedWord> Words<A> {
    /// Makes `count` words in `segment`, all of them 0.
    ///
    /// # Errors
    ///
    /// If there is an object of this name, or no room for it; [`SegmentError::Impossible`] if there
    /// are to be no words.
    pub fn create(segment: &Segment, name: &str, count: u32) -> Result<Self, SegmentError> {
        let shape = WordsShape::of([count, 0, 0, 0]);
        Ok(Words { placed: Placed::create(segment, name, shape, |_| ())? })
    }

    /// Opens the words of this name, however many they are.
    ///
    /// # Errors
    ///
    /// If there are none, it is another kind of object, or they have another width.
    pub fn open(segment: &Segment, name: &str) -> Result<Self, SegmentError> {
        Ok(Words { placed: Placed::open(segment, name)? })
    }

    /// Opens the words of this name, and makes them if there are none. Any number of processes may
    /// do this at once.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and [`open`](Self::open).
    pub fn open_or_create(segment: &Segment, name: &str, count: u32) -> Result<Self, SegmentError> {
        let shape = WordsShape::of([count, 0, 0, 0]);
        Ok(Words { placed: Placed::open_or_create(segment, name, shape, |_| ())? })
    }
}

impl<A: SharedWord> Deref for Words<A> {
    type Target = [A];

    fn deref(&self) -> &[A] {
        self.placed.object.slice(0, self.placed.shape.count as usize)
    }
}

impl<A: SharedWord> AsRef<[A]> for Words<A> {
    fn as_ref(&self) -> &[A] {
        self
    }
}

impl<A> Clone for Words<A> {
    fn clone(&self) -> Self {
        Words { placed: Placed { object: self.placed.object.clone(), shape: self.placed.shape } }
    }
}

impl<A> fmt::Debug for Words<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Words").field("len", &self.placed.shape.count).finish_non_exhaustive()
    }
}
