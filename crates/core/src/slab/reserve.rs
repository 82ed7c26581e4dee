//! Memory that is reserved at once and opened bit by bit.

use std::{ops::Range, ptr::NonNull};

use super::region::{HEADER, Refused};
use super::{ALIGN, Caller, Class, Heap, PAGE, Stats};
use crate::sync::{AtomicU64, Ordering};

/// So many pages are open at first.
#[cfg(not(test))]
const FIRST: usize = 16 << 10;
/// Few, so that tests open more.
#[cfg(test)]
pub(super) const FIRST: usize = 64;

/// A heap in memory of which most may never be used.
///
/// Walks for room, statistics and sweeps go over what is open: it is doubled where callers find no room near,
/// unless slabs without objects are an eighth of it. So each of them takes time by what was in use at most, and
/// leaves the rest untouched. To open is one step, and nothing depends on who has seen it.
#[derive(Clone, Copy, Debug)]
pub struct Reserve<'m> {
    /// With all pages open.
    pub(super) all: Heap<'m>,
    /// Pages that are open, if more than at first. Only grows; by anyone.
    pub(super) open: &'m AtomicU64,
}

impl<'m> Reserve<'m> {
    /// The heap in the `len` bytes from `base` on, as by [`Heap::over`].
    ///
    /// # Errors
    ///
    /// [`Refused`] says why this memory is none.
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
        // SAFETY: the second word of the header, which there is as the heap was not refused; as `Heap::over`.
        let open = unsafe { base.cast::<AtomicU64>().add(1).as_ref() };
        Ok(Self { all, open })
    }

    /// What is open now.
    pub fn heap(&self) -> Heap<'m> {
        // Relaxed: words are those of free pages before they are open. Whatever it says, pages end.
        let open = usize::try_from(self.open.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        Heap { open: open.max(FIRST).min(self.all.pages()), ..self.all }
    }

    /// As [`Caller::alloc`], and opens more.
    #[inline]
    pub fn alloc(&self, caller: &mut Caller<'m>, size: usize, align: usize) -> Option<usize> {
        match caller.alloc_near(size, align) {
            None => self.alloc_new(caller, size, align),
            object => object,
        }
    }

    /// As [`alloc`](Self::alloc), where [`Caller::alloc_near`] has found none.
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
            // Once, as they may be empty and lie apart.
            if !reclaimed && self.is_empty_enough(caller) {
                reclaimed = true;
            } else {
                self.widen(caller);
            }
        }
    }

    /// Whether what a caller looks at has room to be used again, which is made free.
    fn is_empty_enough(&self, caller: &mut Caller<'m>) -> bool {
        caller.heap.open >= self.heap().open && caller.reclaim() >= caller.heap.open * PAGE / 8
    }

    /// Has a caller look at more, which is opened unless it is. Ends, as it does so whatever the word says.
    fn widen(&self, caller: &mut Caller<'m>) {
        let seen = caller.heap.open;
        if self.heap().open <= seen {
            // Relaxed: as in `heap`.
            self.open.fetch_max(2 * seen as u64, Ordering::Relaxed);
        }
        let open = self.heap().open.max((2 * seen).min(self.all.pages()));
        caller.widen(Heap { open, ..self.all });
    }

    /// As [`Caller::sweep`], of all that is open.
    pub fn sweep(&self, caller: &mut Caller<'m>, dead: u32) -> usize {
        caller.widen(self.heap());
        caller.sweep(dead)
    }

    /// As [`Heap::stats`]; what is not open is free.
    pub fn stats(&self) -> Stats {
        let heap = self.heap();
        let mut stats = heap.stats();
        stats.free += (self.all.pages() - heap.open) * PAGE;
        stats
    }

    /// Where small objects lie, and what tells of them: offsets of bytes, in ascending order.
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
    /// Whether a page belongs to a slab.
    fn is_slab(&self, page: usize) -> bool {
        self.head_of(page, self.load(page)).is_some_and(|(_, head)| head.class().is_some())
    }
}

impl<'m> Caller<'m> {
    /// Looks for room where it did not look before.
    fn widen(&mut self, heap: Heap<'m>) {
        if heap.open > self.heap.open {
            self.free.1 = heap.open;
            self.heap = heap;
        }
    }
}
