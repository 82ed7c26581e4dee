//! Runs of pages: slabs found and put together, large objects, claims of dead callers, empty slabs.

use super::{ALIGN, ATTEMPTS, Caller, Class, Heap, NotAllocated, PAGE, PageWord};
use crate::atomic::{Ordering, unless_weakened};

/// Number of its own runs that a caller looks at before it puts a new slab together. Free objects
/// of a class may be left alone if less than one slab in so many has any.
const LOOKS: usize = 64;

impl Heap<'_> {
    /// Exchanges the word of a page, if it is `from`: one step.
    fn exchange(&self, page: usize, from: PageWord, to: PageWord, order: Ordering) -> bool {
        // Relaxed: a failed exchange decides nothing.
        self.words[page].compare_exchange(from.0, to.0, order, Ordering::Relaxed).is_ok()
    }

    /// Puts a run of free pages together, and commits it as `as_what`.
    fn claim(&self, id: u32, head: usize, pages: usize, as_what: PageWord) -> bool {
        // Acquire, here and for the parts: pairs with the Release in `give_back`; the contents.
        if !self.exchange(head, PageWord::FREE, PageWord::claim(id), Ordering::Acquire) {
            return false;
        }
        let mut rest = 1..pages;
        if !rest
            .all(|i| self.exchange(head + i, PageWord::FREE, PageWord::part(i), Ordering::Acquire))
        {
            self.give_back(id, head);
            return false;
        }
        // Release: pairs with the Acquire in `take`: a caller that is given an object finds the
        // slab by its parts.
        let release = unless_weakened!("slab-commit", Ordering::Release);
        self.exchange(head, PageWord::claim(id), as_what, release)
    }

    /// Takes a run apart that `id` has claimed, and returns the number of its pages.
    ///
    /// The last part goes first and the head last, so that at any time the remaining parts adjoin
    /// the head, and the head names the caller that has to give them back.
    fn give_back(&self, id: u32, head: usize) -> usize {
        let parts = (1..self.pages() - head)
            .take_while(|&i| self.load(head + i) == PageWord::part(i))
            .count();
        // Release: pairs with the Acquire in `claim`.
        let release = unless_weakened!("slab-give-back", Ordering::Release);
        let free_head = || self.exchange(head, PageWord::claim(id), PageWord::FREE, release);
        if cfg!(weaken = "slab-head-last") {
            free_head();
        }
        for i in (1..=parts).rev() {
            self.exchange(head + i, PageWord::part(i), PageWord::FREE, release);
        }
        free_head();
        1 + parts
    }

    /// Returns the end of the run that a page belongs to; for any words, it lies behind the page.
    fn end_of(&self, page: usize) -> usize {
        let Some((head, word)) = self.head_of(page, self.load(page)) else { return page + 1 };
        let pages = word.pages().or(word.class().map(Class::pages)).unwrap_or(1);
        head.saturating_add(pages).clamp(page + 1, self.pages())
    }

    fn is_free(&self, page: usize) -> bool {
        self.load(page) == PageWord::FREE
    }

    /// Returns the first free run within `from..to`.
    fn free_run_up(&self, pages: usize, from: usize, to: usize) -> Option<usize> {
        let mut head = from;
        while head + pages <= to {
            match (head..head + pages).rfind(|&page| !self.is_free(page)) {
                None => return Some(head),
                Some(used) => head = self.end_of(used),
            }
        }
        None
    }

    /// Returns the last free run within `from..to` that begins at a multiple of `align` pages.
    fn free_run_down(&self, pages: usize, align: usize, from: usize, to: usize) -> Option<usize> {
        let mut end = to;
        loop {
            let head = end.checked_sub(pages)? / align * align;
            if head < from {
                return None;
            }
            match (head..head + pages).find(|&page| !self.is_free(page)) {
                None => return Some(head),
                Some(used) => end = used,
            }
        }
    }

    /// Takes an object from a slab among the runs within `from..to`, of which at most `looks` are
    /// looked at. Returns the page where the look ended, and the object.
    fn look(&self, class: Class, from: usize, to: usize, looks: usize) -> (usize, Option<usize>) {
        let mut page = from;
        for _ in 0..looks {
            if page >= to {
                break;
            }
            if let Some(object) = self.take(page, class) {
                return (page, Some(object));
            }
            page = self.end_of(page);
        }
        (page, None)
    }
}

impl Caller<'_> {
    /// Allocates an object from another slab than the last, or from a new one.
    #[cold]
    pub(super) fn alloc_slow(&mut self, class: Class) -> Option<usize> {
        self.look_again(class)
            .or_else(|| self.new_slab(class))
            .or_else(|| self.look_everywhere(class))
            .or_else(|| (self.reclaim() > 0).then(|| self.new_slab(class))?)
    }

    /// Allocates an object from the slab used last, which has changed since, or from one nearby.
    #[cold]
    pub(super) fn look_again(&mut self, class: Class) -> Option<usize> {
        let last = self.hints[class.index()].slab;
        self.heap.take_again(last, class).or_else(|| self.look_near(class))
    }

    /// Looks in the slab where an object was freed, then in some of the runs between which the
    /// caller's slabs are.
    fn look_near(&mut self, class: Class) -> Option<usize> {
        let hint = self.hints[class.index()];
        if let Some(object) = self.heap.take(hint.freed, class) {
            self.hints[class.index()].slab = hint.freed;
            return Some(object);
        }
        let (low, high) = self.slabs;
        let next = hint.next.clamp(low, high);
        let (mut page, mut object) = self.heap.look(class, next, high, LOOKS);
        if object.is_none() && page >= high {
            (page, object) = self.heap.look(class, low, next, LOOKS);
        }
        self.found(class, page, object)
    }

    fn look_everywhere(&mut self, class: Class) -> Option<usize> {
        let (page, object) = self.heap.look(class, 0, self.heap.open, self.heap.open);
        self.found(class, page, object)
    }

    /// Records where a look has ended.
    fn found(&mut self, class: Class, page: usize, object: Option<usize>) -> Option<usize> {
        let hint = &mut self.hints[class.index()];
        hint.next = page;
        if object.is_some() {
            hint.slab = page;
        }
        object
    }

    /// Puts a slab together; returns its first object.
    pub(super) fn new_slab(&mut self, class: Class) -> Option<usize> {
        let (from, all) = (self.free.0, self.heap.open);
        let (head, offset) = self
            .new_slab_within(class, from, all)
            // The run may begin before `from` and end behind it.
            .or_else(|| self.new_slab_within(class, 0, (from + class.pages()).min(all)))?;
        self.hints[class.index()].slab = head;
        self.free.0 = head + class.pages();
        self.slabs = (self.slabs.0.min(head), self.slabs.1.max(head + class.pages()));
        Some(offset)
    }

    fn new_slab_within(&self, class: Class, from: usize, to: usize) -> Option<(usize, usize)> {
        let mut from = from;
        for _ in 0..ATTEMPTS {
            let head = self.heap.free_run_up(class.pages(), from, to)?;
            if self.heap.claim(self.id, head, class.pages(), PageWord::slab(class)) {
                return Some((head, self.heap.offset(head)));
            }
            from = head + 1;
        }
        None
    }

    /// Allocates a large object, or one of large alignment.
    #[cold]
    pub(super) fn alloc_pages(&mut self, size: usize, align: usize) -> Option<usize> {
        let (pages, align) = (size.max(1).div_ceil(PAGE), align.div_ceil(PAGE));
        if pages > self.heap.open || align > ALIGN / PAGE {
            return None;
        }
        self.new_run(pages, align)
            .or_else(|| (self.reclaim() > 0).then(|| self.new_run(pages, align))?)
    }

    pub(super) fn new_run(&mut self, pages: usize, align: usize) -> Option<usize> {
        let (to, all) = (self.free.1, self.heap.open);
        let head = self
            .new_run_within(pages, align, 0, to)
            .or_else(|| self.new_run_within(pages, align, to.saturating_sub(pages), all))?;
        self.free.1 = head;
        Some(self.heap.offset(head))
    }

    fn new_run_within(&self, pages: usize, align: usize, from: usize, to: usize) -> Option<usize> {
        let mut to = to;
        for _ in 0..ATTEMPTS {
            let head = self.heap.free_run_down(pages, align, from, to)?;
            if self.heap.claim(self.id, head, pages, PageWord::run(pages)) {
                return Some(head);
            }
            to = head + pages - 1;
        }
        None
    }

    #[cold]
    pub(super) fn free_pages(
        &mut self,
        head: usize,
        bytes: usize,
        page: PageWord,
    ) -> Result<(), NotAllocated> {
        // Release: pairs with the Acquire in `take_over`.
        let freed = bytes == 0
            && page.pages().is_some()
            && self.heap.exchange(head, page, PageWord::claim(self.id), Ordering::Release);
        if !freed {
            return Err(NotAllocated);
        }
        self.heap.give_back(self.id, head);
        Ok(())
    }

    /// Frees the pages of all slabs without objects, also of other callers, and returns the number
    /// of bytes.
    ///
    /// [`alloc`](Self::alloc) does so when it finds no room, and only then: a slab that is emptied
    /// again and again should not be put together each time. Walks all pages.
    pub fn reclaim(&mut self) -> usize {
        self.at_each_page(|head| self.reclaim_slab(head))
    }

    fn reclaim_slab(&self, head: usize) -> usize {
        let page = self.heap.load(head);
        if !page.is_empty_slab() {
            return 0;
        }
        if cfg!(weaken = "slab-reclaim") {
            // Emptiness is only looked at, and not checked by the exchange that commits.
            self.heap.words[head].swap(PageWord::claim(self.id).0, Ordering::AcqRel);
            return self.heap.give_back(self.id, head);
        }
        // Acquire: pairs with the Release in `free`; the contents. Release: pairs with the Acquire
        // in `take_over`.
        let claimed = self.heap.exchange(head, page, PageWord::claim(self.id), Ordering::AcqRel);
        if claimed { self.heap.give_back(self.id, head) } else { 0 }
    }

    /// Gives back the pages that a dead caller was putting together or taking apart, and returns
    /// the number of bytes.
    ///
    /// Any number of callers may do so at once, and die: each run is taken over in one step. Walks
    /// all pages. `dead` makes no further step, and no further caller has its name before all have
    /// swept it.
    pub fn sweep(&mut self, dead: u32) -> usize {
        self.at_each_page(|head| self.take_over(head, dead))
    }

    /// Calls `by` for each page, which gives pages back from there on and returns their number.
    /// Returns the number of bytes.
    fn at_each_page(&self, by: impl Fn(usize) -> usize) -> usize {
        let (mut page, mut given) = (0, 0);
        while page < self.heap.open {
            let pages = by(page);
            given += pages * PAGE;
            page += pages.max(1);
        }
        given
    }

    fn take_over(&self, head: usize, dead: u32) -> usize {
        if self.heap.load(head) != PageWord::claim(dead) {
            return 0;
        }
        if cfg!(weaken = "slab-take-over") {
            // As if two callers could take the same run apart.
            return self.heap.give_back(dead, head);
        }
        // Acquire: pairs with the Release of the exchange by which a run was claimed to be freed;
        // the contents. Release: pairs with the Acquire of another sweep here.
        let taken = self.heap.exchange(
            head,
            PageWord::claim(dead),
            PageWord::claim(self.id),
            Ordering::AcqRel,
        );
        if taken { self.heap.give_back(self.id, head) } else { 0 }
    }
}
