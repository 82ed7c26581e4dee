//! An allocator in memory that several processes share; any of them may be killed at any
//! instruction.
//!
//! README.md beside this file has the states, the steps, and the cost of a kill. Slabs with a
//! bitmap are an old art (Bonwick, "The slab allocator", 1994); here the bitmap shares its word
//! with the kind of the slab, so that one exchange both checks and commits.

use crate::atomic::{AtomicU64, Ordering, unless_weakened};
pub use class::LARGEST;
use class::{CLASSES, Class};
use page::PageWord;
#[cfg(not(any(loom, shuttle)))]
pub use region::Refused;
#[cfg(not(any(loom, shuttle)))]
pub use reserve::Reserve;

mod class;
#[cfg(all(test, loom))]
mod model;
mod page;
// The models' atomics are no words of memory.
#[cfg(not(any(loom, shuttle)))]
mod region;
#[cfg(not(any(loom, shuttle)))]
mod reserve;
mod runs;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

/// Bytes of a page, the unit of slabs and of large objects.
pub const PAGE: usize = 1 << 10;
/// Alignment of the memory, and the greatest alignment of an object.
pub const ALIGN: usize = 4 << 10;

/// Number of times an exchange is tried on a slab that other callers change all the time.
const ATTEMPTS: usize = 16;

/// Memory from which objects are allocated, as one process sees it.
///
/// It hands out offsets and never touches the objects, so it works wherever the memory is mapped.
/// The words that it reads there are checked: for any contents, offsets lie inside, and every call
/// ends.
#[derive(Clone, Copy, Debug)]
pub struct Heap<'m> {
    /// One word for each page. Written by all.
    words: &'m [AtomicU64],
    /// The offset of the first page.
    at: usize,
    /// Pages from here on are not looked at for room, though other callers may have objects there.
    open: usize,
}

/// The error of an offset where no allocated object begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAllocated;

/// The use of the bytes of all pages. Exact while no caller allocates or frees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of objects, each as long as its size was rounded up to.
    pub in_use: usize,
    /// Bytes of pages that a caller puts together, or takes apart, or died doing so.
    pub in_flight: usize,
    /// Bytes of free pages and of free objects in slabs.
    pub free: usize,
    /// Bytes in which no object fits.
    pub waste: usize,
}

impl Heap<'_> {
    /// Returns the bytes of the object at an offset, at least as many as were asked for.
    ///
    /// # Errors
    ///
    /// [`NotAllocated`] if none begins there.
    pub fn size_of(&self, offset: usize) -> Result<usize, NotAllocated> {
        let (head, bytes, page) = self.find(offset).ok_or(NotAllocated)?;
        // A hostile word may be that of a run that would reach beyond the end.
        let room = self.pages() - head;
        match (page.class(), page.pages()) {
            (Some(class), _) if class.pages() <= room => class
                .object_at(bytes)
                .filter(|&object| page.is_taken(object))
                .map(|_| class.size())
                .ok_or(NotAllocated),
            (_, Some(pages)) if pages <= room && bytes == 0 => Ok(pages * PAGE),
            _ => Err(NotAllocated),
        }
    }

    /// Returns the offset of the run to which the byte at an offset belongs, if it belongs to one.
    pub fn start_of(&self, offset: usize) -> Option<usize> {
        let (head, _, page) = self.find(offset)?;
        page.pages().map(|_| self.offset(head))
    }

    /// Returns the use of all bytes; walks all pages.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        (0..self.open).for_each(|page| self.count(page, &mut stats));
        let known = stats.in_use.saturating_add(stats.in_flight).saturating_add(stats.free);
        stats.waste = (self.open * PAGE).saturating_sub(known);
        stats
    }

    fn count(&self, at: usize, stats: &mut Stats) {
        let page = self.load(at);
        if page == PageWord::FREE {
            stats.free += PAGE;
        } else if let Some(class) = page.class() {
            let taken = page.taken(class);
            stats.in_use = stats.in_use.saturating_add(taken as usize * class.size());
            stats.free += (class.objects() - taken) as usize * class.size();
        } else if let Some(pages) = page.pages() {
            // Hostile runs may overlap, so that the sum has no bound.
            let bytes = pages.min(self.pages() - at) * PAGE;
            stats.in_use = stats.in_use.saturating_add(bytes);
        } else if page.is_claim() || self.head_of(at, page).is_some_and(|(_, head)| head.is_claim())
        {
            stats.in_flight += PAGE;
        }
    }

    /// Creates a heap of the pages of these words, from 0 on.
    #[cfg(all(test, any(loom, shuttle)))]
    pub(crate) fn of_words(words: &[AtomicU64]) -> Heap<'_> {
        Heap { words, at: 0, open: words.len() }
    }

    #[inline]
    fn pages(&self) -> usize {
        self.words.len()
    }

    #[inline]
    fn load(&self, page: usize) -> PageWord {
        // Relaxed: a caller that acts on it does so by an exchange, or holds an object in the page.
        PageWord(self.words[page].load(Ordering::Relaxed))
    }

    /// Finds an object: the first page of its run, its distance in bytes from the beginning of
    /// that, and the word of that page.
    #[inline]
    fn find(&self, offset: usize) -> Option<(usize, usize, PageWord)> {
        let bytes = offset.checked_sub(self.at)?;
        // Relaxed: the hand-over of an object orders the words of its run before this load.
        let page = PageWord(self.words.get(bytes / PAGE)?.load(Ordering::Relaxed));
        let (head, page) = self.head_of(bytes / PAGE, page)?;
        Some((head, bytes - head * PAGE, page))
    }

    /// Returns the first page of a run, and its word, from one of its pages.
    #[inline]
    fn head_of(&self, at: usize, page: PageWord) -> Option<(usize, PageWord)> {
        match page.distance() {
            None => Some((at, page)),
            Some(distance) => at.checked_sub(distance).map(|head| (head, self.load(head))),
        }
    }

    /// Takes an object out of a slab, if it is one of that class and has a free object, and no
    /// other caller changes it meanwhile.
    #[inline]
    fn take(&self, page: usize, class: Class) -> Option<usize> {
        self.try_take(page, class)?.ok()
    }

    /// Takes an object like [`take`](Self::take), but tries again if another caller has changed the
    /// slab.
    fn take_again(&self, page: usize, class: Class) -> Option<usize> {
        for _ in 0..ATTEMPTS {
            if let Ok(object) = self.try_take(page, class)? {
                return Some(object);
            }
        }
        None
    }

    /// Makes one attempt to take an object: none if there is no object, an error if another caller
    /// was faster.
    #[inline]
    fn try_take(&self, page: usize, class: Class) -> Option<Result<usize, Lost>> {
        // A hostile word may be that of a slab that would reach beyond the end.
        if page + class.pages() > self.pages() {
            return None;
        }
        let seen = self.load(page);
        let object = seen.free_object(class)?;
        // Acquire: pairs with the Release in `Caller::free`, for the contents, and with that in
        // `claim`, for the other words of the slab.
        let acquire = unless_weakened!("slab-take", Ordering::Acquire);
        let taken = seen.with(object).0;
        let offset = self.offset(page) + object as usize * class.size();
        let exchanged =
            self.words[page].compare_exchange(seen.0, taken, acquire, Ordering::Relaxed);
        Some(exchanged.map(|_| offset).map_err(|_| Lost))
    }

    #[inline]
    fn offset(&self, page: usize) -> usize {
        self.at + page * PAGE
    }
}

/// Returns true if an object takes pages of its own, so that the caller that allocates or frees it
/// claims them under its name.
#[inline]
pub fn takes_pages(size: usize, align: usize) -> bool {
    size > LARGEST || align > 16 && Class::of(size, align).is_none()
}

/// Another caller was faster.
struct Lost;

/// The places where a caller looks for objects of one class.
#[derive(Clone, Copy, Debug)]
struct Hint {
    /// The slab that it has used last.
    slab: usize,
    /// A slab that it has found full as it freed an object there, so that hardly any other caller
    /// uses it.
    freed: usize,
    /// The page where it looks for another slab.
    next: usize,
}

/// A party that allocates and frees: a worker, or a thread. Its hints are private, so that only the
/// lines of objects' words are touched in the heap.
#[derive(Debug)]
pub struct Caller<'m> {
    heap: Heap<'m>,
    /// Its name in the runs that it puts together.
    id: u32,
    hints: [Hint; CLASSES],
    /// The pages between which it has put slabs together.
    slabs: (usize, usize),
    /// The pages where it looks for free pages: upwards for slabs, downwards for large objects.
    free: (usize, usize),
}

impl<'m> Caller<'m> {
    /// Creates a caller by the name of `id`, which no other caller has or had, unless
    /// [swept](Self::sweep).
    pub fn new(heap: Heap<'m>, id: u32) -> Self {
        Self::sharing(heap, id, id)
    }

    /// Creates a caller like [`new`](Self::new), but callers that die together may share a name.
    /// `place` differs for each of them.
    pub fn sharing(heap: Heap<'m>, id: u32, place: u32) -> Self {
        // Callers begin far from each other, each on a line of words of its own.
        let share = (u64::from(place.wrapping_mul(0x9e37_79b9)) * heap.open as u64) >> 32;
        let first = share as usize / 8 * 8;
        let hints = [Hint { slab: first, freed: first, next: first }; CLASSES];
        Self { heap, id, hints, slabs: (first, first), free: (first, heap.open) }
    }

    /// Allocates `size` bytes aligned to `align`, a power of two, and returns their offset.
    ///
    /// Returns `None` if no room was found, or if `align` is more than [`ALIGN`]. If other callers
    /// put large objects together at the same time, that may happen although there is room in the
    /// end.
    ///
    /// Cost while the slab used last has room: one RMW on one line, which its process mostly has to
    /// itself.
    #[inline]
    pub fn alloc(&mut self, size: usize, align: usize) -> Option<usize> {
        match Class::of(size, align) {
            Some(class) => match self.heap.take(self.hints[class.index()].slab, class) {
                None => self.alloc_slow(class),
                object => object,
            },
            None => self.alloc_pages(size, align),
        }
    }

    /// Allocates like [`alloc`](Self::alloc), but only from existing slabs nearby: it claims
    /// nothing, so the name is not used.
    #[inline]
    pub fn alloc_near(&mut self, size: usize, align: usize) -> Option<usize> {
        let class = Class::of(size, align)?;
        match self.heap.take(self.hints[class.index()].slab, class) {
            None => self.look_again(class),
            object => object,
        }
    }

    /// Returns the name of its claims.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Frees the object at `offset`, also of another caller. No caller touches it afterwards.
    ///
    /// Cost: one RMW, and the lines of two words, mostly the same; a large object takes an RMW for
    /// each page.
    ///
    /// # Errors
    ///
    /// [`NotAllocated`] if none begins there: it was freed before, or other processes have
    /// overwritten the words. Not every such error is found: by then there may be another object.
    #[inline]
    pub fn free(&mut self, offset: usize) -> Result<(), NotAllocated> {
        let (head, bytes, page) = self.heap.find(offset).ok_or(NotAllocated)?;
        let Some(class) = page.class() else {
            return self.free_pages(head, bytes, page);
        };
        let object = class.object_at(bytes).ok_or(NotAllocated)?;
        if !page.is_taken(object) {
            return Err(NotAllocated);
        }
        // No compare-exchange: while an object is taken, the kind of the page does not change.
        // Release: pairs with the Acquire in `take` and in `reclaim_slab`.
        let release = unless_weakened!("slab-free", Ordering::Release);
        let bit = 1 << object;
        let taken = self.heap.words[head].fetch_and(!bit, release) & bit != 0;
        if page.free_object(class).is_none() {
            self.hints[class.index()].freed = head;
        }
        if taken { Ok(()) } else { Err(NotAllocated) }
    }
}
