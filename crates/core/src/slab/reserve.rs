//! Memory that is reserved at once and opened bit by bit.

use std::{ops::Range, ptr::NonNull};

use super::region::{HEADER, Refused};
use super::{ALIGN, Caller, Class, Heap, PAGE, Stats};
use crate::atomic::{AtomicU64, Ordering};

/// Number of pages that are open at first.
#[cfg(not(test))]
const FIRST: usize = 16 << 10;
/// Number of pages that are open at first; few, so that tests open more.
#[cfg(test)]
pub(super) const FIRST: usize = 64;

/// A heap in memory of which most may never be used.
///
/// Walks for room, statistics and sweeps go over the open pages. These are doubled when callers
/// find no room near, unless slabs without objects are an eighth of them. So each walk takes time
/// by the largest use so far at most, and leaves the rest untouched. Opening is one step, and
/// nothing depends on which callers have seen it.
#[derive(Clone, Copy, Debug)]
pub struct Reserve<'m> {
    /// The heap with all pages open.
    pub(super) all: Heap<'m>,
    /// Number of open pages, if more than at first. It only grows; any process may change it.
    pub(super) open: &'m AtomicU64,
}

impl<'m> Reserve<'m> {
    /// Opens the heap in the `len` bytes from `base` on, as [`Heap::over`] does.
    ///
    /// # Errors
    ///
    /// [`Refused`] names the reason.
    ///
    /// # Safety
    ///
    /// As for [`Heap::over`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{alloc::{Layout, alloc_zeroed, dealloc}, ptr::NonNull};
    /// use daiko_core::slab::{ALIGN, Caller, Reserve};
    ///
    /// let layout = Layout::from_size_align(64 << 20, ALIGN).unwrap();
    /// let base = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
    /// let reserve = unsafe { Reserve::over(base, layout.size()) }.unwrap();
    ///
    /// let mut caller = Caller::new(reserve.heap(), 1);
    /// let object = reserve.alloc(&mut caller, 40 << 20, 8).unwrap();
    /// assert_eq!(reserve.stats().in_use, 40 << 20);
    /// caller.free(object).unwrap();
    /// # unsafe { dealloc(base.as_ptr(), layout) };
    /// ```
    pub unsafe fn over(base: NonNull<u8>, len: usize) -> Result<Self, Refused> {
        // SAFETY: the caller's promise.
        let all = unsafe { Heap::over(base, len)? };
        // SAFETY: the second word of the header, which exists as the heap was not refused;
        // otherwise as in `Heap::over`.
        let open = unsafe { base.cast::<AtomicU64>().add(1).as_ref() };
        Ok(Self { all, open })
    }

    /// Returns the heap of the pages that are open now.
    pub fn heap(&self) -> Heap<'m> {
        // Relaxed: words are those of free pages before they are open. Any value is cut to the
        // existing pages.
        let open = usize::try_from(self.open.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        Heap { open: open.max(FIRST).min(self.all.pages()), ..self.all }
    }

    /// Allocates like [`Caller::alloc`], and opens more if there is no room.
    #[inline]
    pub fn alloc(&self, caller: &mut Caller<'m>, size: usize, align: usize) -> Option<usize> {
        match caller.alloc_near(size, align) {
            None => self.alloc_new(caller, size, align),
            object => object,
        }
    }

    /// Allocates like [`alloc`](Self::alloc), after [`Caller::alloc_near`] has found no object.
    #[cold]
    pub fn alloc_new(&self, caller: &mut Caller<'m>, size: usize, align: usize) -> Option<usize> {
        let (class, pages) = (Class::of(size, align), size.max(1).div_ceil(PAGE));
        if align > ALIGN || pages > self.all.pages() {
            return None;
        }
        let mut reclaimed = false;
        loop {
            let object = match class {
                Some(class) => caller.new_slab(class),
                None => caller.new_run(pages, align.div_ceil(PAGE)),
            };
            if object.is_some() {
                return object;
            }
            if caller.heap.open == self.all.pages() {
                return caller.alloc(size, align);
            }
            // Once, as the reclaimed pages may lie apart.
            if !reclaimed && self.is_empty_enough(caller) {
                reclaimed = true;
            } else {
                self.widen(caller);
            }
        }
    }

    /// Reclaims, and returns true if enough of the caller's pages is free then to be used again.
    fn is_empty_enough(&self, caller: &mut Caller<'m>) -> bool {
        caller.heap.open >= self.heap().open && caller.reclaim() >= caller.heap.open * PAGE / 8
    }

    /// Lets a caller look at more pages, and opens them if they are not open. It makes progress for
    /// any value of the word, so the loop around it ends.
    fn widen(&self, caller: &mut Caller<'m>) {
        let seen = caller.heap.open;
        if self.heap().open <= seen {
            // Relaxed: as in `heap`.
            self.open.fetch_max(2 * seen as u64, Ordering::Relaxed);
        }
        let open = self.heap().open.max((2 * seen).min(self.all.pages()));
        caller.widen(Heap { open, ..self.all });
    }

    /// Sweeps like [`Caller::sweep`], over all open pages.
    pub fn sweep(&self, caller: &mut Caller<'m>, dead: u32) -> usize {
        caller.widen(self.heap());
        caller.sweep(dead)
    }

    /// Returns the use of all bytes, as [`Heap::stats`] does; unopened pages are free.
    pub fn stats(&self) -> Stats {
        let heap = self.heap();
        let mut stats = heap.stats();
        stats.free += (self.all.pages() - heap.open) * PAGE;
        stats
    }

    /// Returns the offsets in bytes of small objects, and of the words that describe them, in
    /// ascending order.
    pub fn small(&self) -> impl Iterator<Item = Range<usize>> + use<'m> {
        let heap = self.heap();
        let words = HEADER + heap.open * size_of::<AtomicU64>();
        let mut page = 0;
        let slabs = std::iter::from_fn(move || {
            let first = (page..heap.open).find(|&page| heap.is_slab(page))?;
            page = (first..heap.open).find(|&page| !heap.is_slab(page)).unwrap_or(heap.open);
            Some(heap.offset(first)..heap.offset(page))
        });
        std::iter::once(0..words).chain(slabs)
    }
}

impl Heap<'_> {
    fn is_slab(&self, page: usize) -> bool {
        self.head_of(page, self.load(page)).is_some_and(|(_, head)| head.class().is_some())
    }
}

impl<'m> Caller<'m> {
    /// Extends the pages where the caller looks for room.
    fn widen(&mut self, heap: Heap<'m>) {
        if heap.open > self.heap.open {
            self.free.1 = heap.open;
            self.heap = heap;
        }
    }
}
