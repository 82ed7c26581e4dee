//! The word of a page.

use super::class::{CLASSES, Class};

/// Number of objects that have room in a word, beside the tag.
pub(super) const OBJECTS: u32 = 58;

const TAKEN: u64 = (1 << OBJECTS) - 1;
const CLAIM: u64 = CLASSES as u64 + 1;
const RUN: u64 = CLASSES as u64 + 2;
const PART: u64 = CLASSES as u64 + 3;

/// The kind of a page; for the first page of a slab, also its taken objects.
///
/// ```text
/// bits 58..64      bits 0..58
/// 0                0              free
/// 1 + class        taken objects  first of a slab
/// 41 = CLAIM       id             first of a run that `id` puts together or takes apart
/// 42 = RUN         pages          first of an object
/// 43 = PART        distance       belongs to the run whose first page is so far before
/// ```
///
/// Any other word is taken for a page in use that is never given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageWord(pub(super) u64);

impl PageWord {
    pub(super) const FREE: Self = Self(0);

    const fn tagged(tag: u64, rest: u64) -> Self {
        Self(tag << OBJECTS | rest & TAKEN)
    }

    /// Returns the first page of a new slab, with its first object taken.
    pub(super) fn slab(class: Class) -> Self {
        Self::tagged(1 + class.index() as u64, 1)
    }

    pub(super) fn claim(id: u32) -> Self {
        Self::tagged(CLAIM, u64::from(id))
    }

    pub(super) fn run(pages: usize) -> Self {
        Self::tagged(RUN, pages as u64)
    }

    pub(super) fn part(distance: usize) -> Self {
        Self::tagged(PART, distance as u64)
    }

    #[inline]
    fn tag(self) -> u64 {
        self.0 >> OBJECTS
    }

    /// Returns the distance from the first page of its run, if it is a part of one.
    #[inline]
    pub(super) fn distance(self) -> Option<usize> {
        (self.tag() == PART).then_some((self.0 & TAKEN) as usize)
    }

    /// Returns the class of the objects, if this is the first page of a slab.
    #[inline]
    pub(super) fn class(self) -> Option<Class> {
        Class::from_index((self.tag() as usize).wrapping_sub(1))
    }

    /// Returns the pages of an object, if this is its first.
    pub(super) fn pages(self) -> Option<usize> {
        (self.tag() == RUN).then_some((self.0 & TAKEN) as usize)
    }

    pub(super) fn is_claim(self) -> bool {
        self.tag() == CLAIM
    }

    /// Returns the first free object, if this is the first page of a slab of `class` that has one.
    #[inline]
    pub(super) fn free_object(self, class: Class) -> Option<u32> {
        let first = (!self.0).trailing_zeros();
        (self.tag() == 1 + class.index() as u64 && first < class.objects()).then_some(first)
    }

    #[inline]
    pub(super) fn is_taken(self, object: u32) -> bool {
        self.0 >> object & 1 == 1
    }

    #[inline]
    pub(super) fn with(self, object: u32) -> Self {
        Self(self.0 | 1 << object)
    }

    pub(super) fn taken(self, class: Class) -> u32 {
        (self.0 & TAKEN).count_ones().min(class.objects())
    }

    pub(super) fn is_empty_slab(self) -> bool {
        self.class().is_some() && self.0 & TAKEN == 0
    }
}
