//! Whole pages of an arena.

use std::ptr::{self, NonNull};

use super::source::{self, MemorySource};
use crate::Scope;
use crate::lock::Lock;
use crate::memory::{Mapping, MemoryError, discard, page_size, remove_guards, whole_pages};

/// The origin of an arena's pages.
pub(super) enum Pages {
    /// One mapping for each request.
    Private,
    /// Runs of free pages in one mapping, which the field keeps alive.
    Shared { runs: Lock<Runs>, _mapping: Mapping },
    /// An allocator of several processes, which also serves small objects.
    Lent(&'static dyn MemorySource),
}

impl Pages {
    pub(super) fn private() -> Self {
        Self::Private
    }

    pub(super) fn shared(bytes: usize) -> Result<Self, MemoryError> {
        let mapping = Mapping::new(bytes, Scope::Shared)?;
        let mut runs = Runs { first: None };
        // SAFETY: the mapping is fresh and lives as long as the runs.
        unsafe { runs.insert(mapping.start(), mapping.len()) };
        Ok(Self::Shared { runs: Lock::new(Scope::Shared, runs), _mapping: mapping })
    }

    pub(super) fn scope(&self) -> Scope {
        match self {
            Self::Private => Scope::Private,
            Self::Shared { .. } | Self::Lent(_) => Scope::Shared,
        }
    }

    /// Maps zeroed pages and returns them with their length.
    pub(super) fn map(
        &self,
        bytes: usize,
        align: usize,
    ) -> Result<(NonNull<u8>, usize), MemoryError> {
        match self {
            Self::Private => Mapping::aligned(bytes, align, Scope::Private).map(Mapping::into_raw),
            Self::Shared { runs, .. } => {
                let len = whole_pages(bytes.max(1)).ok_or(MemoryError::Reservation { bytes })?;
                let start = runs.lock().take(len, align.max(page_size()));
                Ok((start.ok_or(MemoryError::Reservation { bytes })?, len))
            }
            Self::Lent(source) => source::map(*source, bytes, align),
        }
    }

    /// # Safety
    ///
    /// [`Pages::map`] returned these pages for the same number of bytes; they are not used any
    /// more.
    pub(super) unsafe fn unmap(&self, start: NonNull<u8>, bytes: usize) {
        let len = whole_pages(bytes.max(1)).expect("it was mapped");
        match self {
            // SAFETY: the caller's promise: the pages are a whole mapping.
            Self::Private => drop(unsafe { Mapping::from_raw(start, len) }),
            Self::Shared { runs, .. } => {
                // SAFETY: the caller gives these pages up.
                if unsafe { restore(start, len) } {
                    // SAFETY: the pages are zeroed, unused, and part of the mapping.
                    unsafe { runs.lock().insert(start, len) };
                }
            }
            // SAFETY: the caller's promise.
            Self::Lent(source) => unsafe { source::unmap(*source, start, len) },
        }
    }
}

/// Removes guards and contents from pages of a shared arena. Returns false, and the pages are lost,
/// if the kernel refuses.
///
/// # Safety
///
/// The pages are the caller's, and the caller does not need them any more.
unsafe fn restore(start: NonNull<u8>, len: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let bare = remove_guards(start, len).is_ok();
        if bare {
            zero(start, len);
        }
        bare
    }
}

/// Zeroes pages of a shared mapping that have no guards.
///
/// # Safety
///
/// The pages are the caller's, and their contents are not needed any more.
pub(super) unsafe fn zero(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise. Locked pages cannot be discarded, but they can be overwritten.
    unsafe {
        if discard(start, len, Scope::Shared).is_err() {
            ptr::write_bytes(start.as_ptr(), 0, len);
        }
    }
}

/// A run of free pages. This header lies in its first bytes; all its other bytes are zero.
struct PageRun {
    len: usize,
    next: Option<NonNull<PageRun>>,
}

impl PageRun {
    fn end(this: NonNull<Self>) -> *mut u8 {
        // SAFETY: runs in the list are live.
        let len = unsafe { this.as_ref().len };
        this.as_ptr().cast::<u8>().wrapping_add(len)
    }
}

/// The free runs in ascending order of address. Adjacent runs are always merged.
pub(super) struct Runs {
    first: Option<NonNull<PageRun>>,
}

// SAFETY: the runs are memory of the process and are reached through this list only.
unsafe impl Send for Runs {}

impl Runs {
    /// Takes pages off the end of the first run that has room, so that its header stays in place.
    fn take(&mut self, len: usize, align: usize) -> Option<NonNull<u8>> {
        let mut link: *mut Option<NonNull<PageRun>> = &mut self.first;
        // SAFETY: `link` points to the list's head or into a live run, and `&mut self` is the only
        // access.
        while let Some(run) = unsafe { *link } {
            let (low, high) = (run.as_ptr().addr(), PageRun::end(run).addr());
            let start = high.checked_sub(len).map_or(0, |start| start & !(align - 1));
            if start >= low {
                let start = run.cast::<u8>().with_addr(start.try_into().ok()?);
                // SAFETY: `link` leads to `run`, in which these pages lie.
                unsafe { self.cut(link, start, len) };
                return Some(start);
            }
            // SAFETY: as above.
            link = unsafe { &raw mut (*run.as_ptr()).next };
        }
        None
    }

    /// Removes `len` bytes at `start` from the run that `link` leads to.
    ///
    /// # Safety
    ///
    /// `link` leads to a run of this list in which the bytes lie.
    unsafe fn cut(&mut self, link: *mut Option<NonNull<PageRun>>, start: NonNull<u8>, len: usize) {
        // SAFETY: the caller's promise. The header of a consumed run is zeroed, and the rest behind
        // the bytes becomes a run of its own.
        unsafe {
            let Some(run) = *link else { return };
            let rest = PageRun::end(run).addr() - start.addr().get() - len;
            let kept = start.addr().get() - run.addr().get();
            if kept == 0 {
                *link = (*run.as_ptr()).next;
                run.as_ptr().write_bytes(0, 1);
            } else {
                (*run.as_ptr()).len = kept;
            }
            if rest > 0 {
                self.insert(start.add(len), rest);
            }
        }
    }

    /// Adds free pages and merges them with adjacent runs.
    ///
    /// # Safety
    ///
    /// The pages are zeroed, in no run and unused; `len` is not zero.
    unsafe fn insert(&mut self, start: NonNull<u8>, len: usize) {
        let run = start.cast::<PageRun>();
        let mut before: Option<NonNull<PageRun>> = None;
        let mut after = self.first;
        // SAFETY: all runs in the list are live, and the new header is written to the caller's
        // pages.
        unsafe {
            while let Some(next) = after.filter(|next| *next < run) {
                before = Some(next);
                after = next.as_ref().next;
            }
            run.write(PageRun { len, next: after });
            if let Some(next) = after.filter(|next| next.as_ptr().cast() == PageRun::end(run)) {
                let merged = next.as_ref().len;
                run.write(PageRun { len: len + merged, next: next.as_ref().next });
                next.as_ptr().write_bytes(0, 1);
            }
            match before {
                Some(before) if PageRun::end(before) == start.as_ptr() => {
                    let merged = run.read();
                    run.as_ptr().write_bytes(0, 1);
                    (*before.as_ptr()).len += merged.len;
                    (*before.as_ptr()).next = merged.next;
                }
                Some(before) => (*before.as_ptr()).next = Some(run),
                None => self.first = Some(run),
            }
        }
    }
}
