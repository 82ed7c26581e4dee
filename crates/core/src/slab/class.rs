//! The sizes of objects, and the number of objects of each size in a slab.

use super::{PAGE, page::OBJECTS};

/// Largest size of an object that lies in a slab, in bytes.
pub const LARGEST: usize = 32 << 10;

/// Number of classes: 16, 32, 48, 64, then four for each power of two.
pub(super) const CLASSES: usize = 40;

/// Largest number of pages of a slab, unless fewer than [`FEWEST`] objects would fit.
#[cfg(not(loom))]
const MOST_PAGES: usize = 8;
/// Few, so that a model reads them all.
#[cfg(loom)]
const MOST_PAGES: usize = 2;
const FEWEST: usize = 4;

/// A size of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(u8);

/// The constants of a class.
#[derive(Clone, Copy)]
struct ClassShape {
    size: u32,
    pages: u32,
    objects: u32,
    /// 2^32 / (size / 16), rounded up, for divisions of numbers below 2^16.
    inverse: u64,
}

static SHAPES: [ClassShape; CLASSES] = {
    let mut shapes = [shape(16); CLASSES];
    let mut class = 0;
    while class < CLASSES {
        shapes[class] = shape(size_of_class(class));
        class += 1;
    }
    shapes
};

const fn size_of_class(class: usize) -> usize {
    match class {
        0..4 => 16 * (class + 1),
        _ => (5 + class % 4) << (class / 4 + 3),
    }
}

/// Returns the slab that wastes least, and among equals the largest.
const fn shape(size: usize) -> ClassShape {
    let most = if FEWEST * size / PAGE > MOST_PAGES { FEWEST * size / PAGE } else { MOST_PAGES };
    let (mut best, mut pages) = (0, size.div_ceil(PAGE));
    let mut tried = pages;
    while tried <= most {
        let used = objects(size, tried) * size;
        if used * pages >= best * tried {
            (best, pages) = (used, tried);
        }
        tried += 1;
    }
    ClassShape {
        size: size as u32,
        pages: pages as u32,
        objects: objects(size, pages) as u32,
        inverse: (1u64 << 32).div_ceil(size as u64 / 16),
    }
}

const fn objects(size: usize, pages: usize) -> usize {
    let fit = pages * PAGE / size;
    if fit < OBJECTS as usize { fit } else { OBJECTS as usize }
}

impl Class {
    /// Returns the class for objects of `size` bytes aligned to `align`, a power of two; none if
    /// they take whole pages.
    #[inline]
    pub(super) fn of(size: usize, align: usize) -> Option<Self> {
        if align <= 16 { Self::at_least(size) } else { Self::aligned(size, align) }
    }

    #[inline]
    fn at_least(size: usize) -> Option<Self> {
        let last = size.saturating_sub(1);
        match size {
            0..=64 => Some(Self((last / 16) as u8)),
            65..=LARGEST => {
                let log = last.ilog2() as usize;
                Some(Self((4 * (log - 5) + (last >> (log - 2) & 3)) as u8))
            }
            _ => None,
        }
    }

    /// Returns the class for larger alignments; slabs begin at the beginning of a page.
    fn aligned(size: usize, align: usize) -> Option<Self> {
        if align > PAGE {
            return None;
        }
        let least = Self::at_least(size.max(1).checked_next_multiple_of(align)?)?;
        (least.0..CLASSES as u8).map(Self).find(|class| class.size() % align == 0)
    }

    /// Returns the class with this number, if there is one.
    #[inline]
    pub(super) fn from_index(index: usize) -> Option<Self> {
        (index < CLASSES).then_some(Self(index as u8))
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    #[inline]
    fn shape(self) -> &'static ClassShape {
        &SHAPES[self.index()]
    }

    /// Returns the bytes of an object.
    #[inline]
    pub(super) fn size(self) -> usize {
        self.shape().size as usize
    }

    #[inline]
    pub(super) fn pages(self) -> usize {
        self.shape().pages as usize
    }

    #[inline]
    pub(super) fn objects(self) -> u32 {
        self.shape().objects
    }

    /// Returns the object of a slab that begins `bytes` after it does, if there is one.
    #[inline]
    pub(super) fn object_at(self, bytes: usize) -> Option<u32> {
        let shape = self.shape();
        // Wraps only far beyond any slab, where no object begins.
        let object = ((bytes as u64 / 16).wrapping_mul(shape.inverse) >> 32) as u32;
        let begins = object < shape.objects && object as usize * self.size() == bytes;
        begins.then_some(object)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_least_class_that_is_great_enough_is_taken() {
        for size in 0..=LARGEST {
            let class = Class::of(size, 1).unwrap();
            assert!(class.size() >= size);
            assert!(class.index() == 0 || size_of_class(class.index() - 1) < size);
        }
        assert_eq!(Class::of(LARGEST + 1, 1), None);
        assert_eq!(size_of_class(CLASSES - 1), LARGEST);
    }

    #[test]
    fn objects_of_a_class_are_aligned() {
        for align in (0..=PAGE.ilog2()).map(|log| 1 << log) {
            for size in (0..=LARGEST).step_by(7) {
                if let Some(class) = Class::of(size, align) {
                    assert!(class.size() >= size && class.size() % align == 0);
                }
            }
        }
        assert_eq!(Class::of(16, 2 * PAGE), None);
        assert_eq!(Class::of(usize::MAX, 64), None);
    }

    #[test]
    fn each_object_of_a_slab_is_found_where_it_begins() {
        for class in (0..CLASSES).filter_map(Class::from_index) {
            let found = (0..class.pages() * PAGE).filter_map(|bytes| class.object_at(bytes));
            assert!(found.eq(0..class.objects()), "{class:?}");
        }
    }

    #[test]
    fn a_slab_wastes_less_than_a_tenth() {
        for class in (0..CLASSES).filter_map(Class::from_index) {
            let (used, bytes) = (class.objects() as usize * class.size(), class.pages() * PAGE);
            assert!(class.objects() >= FEWEST as u32 && used <= bytes && 10 * used >= 9 * bytes);
        }
    }
}
