//! Mapped files that survive truncation.
//!
//! Touching a page behind the end of its file raises SIGBUS. The handler must find out, without a
//! lock or an allocation, whether the page belongs to a guarded mapping. The guarded ranges are
//! therefore listed in a table:
//!
//! 1. A range claims an entry by moving its `start` from `FREE` to `CLAIMED`.
//! 2. It writes the other fields, then publishes the true `start` (Release).
//! 3. The handler reads `start` (Acquire), `end`, and `start` again. A range that changed in
//!    between is not the faulting range, which is in use.
//! 4. The handler lowers `intact` to the page that faulted. A handler that finds `intact` that low
//!    already returns, and its thread faults again until the first handler is done. So no page is
//!    replaced twice, which would lose stores made in between.
//! 5. The handler maps zeroed private pages from there up to the old `intact`.
//! 6. Dropping a range frees its entry first and unmaps the range afterwards, so that a successor
//!    at its addresses is not mistaken for it.

use std::fmt;
use std::ops::Deref;
use std::ptr;

use super::Reason;
use crate::atomic::{AtomicUsize, Ordering, fence};
use crate::memory::{Mapping, page_size};
use crate::signal;

/// Largest number of guarded mappings of a process at a time.
pub const MOST_GUARDED: usize = 256;

/// A mapped file with pages that can always be read and written, even after another process
/// truncated it.
///
/// The first access to a missing page replaces it and all following pages by zeroed pages of this
/// process alone, and sets [`is_broken`](Guarded::is_broken). From then on stores reach no other
/// process, and the stores of other processes are lost, so a process that sees the mark gives the
/// file up.
///
/// A system call that is given such an address reports `EFAULT` instead. A SIGBUS handler installed
/// later must call the previous handler.
///
/// # Examples
///
/// ```
/// use daiko_sys::file::{Populate, SharedFile};
///
/// let name = format!("daiko-guarded-{}", std::process::id());
/// let mut file = SharedFile::create(&name, 4096)?;
/// let mapping = file.map_guarded(Populate::OnUse)?;
/// std::fs::File::options().write(true).open(file.path()).unwrap().set_len(0).unwrap();
/// assert!(!mapping.is_broken(), "nobody has noticed");
/// // SAFETY: the mapping is live and of this one thread.
/// assert_eq!(unsafe { mapping.start().read_volatile() }, 0);
/// assert!(mapping.is_broken());
/// assert!(file.lock()?.remove()?);
/// # Ok::<(), daiko_sys::file::FileError>(())
/// ```
pub struct Guarded {
    mapping: Mapping,
    entry: &'static RangeEntry,
}

impl Guarded {
    pub(super) fn new(mapping: Mapping) -> Result<Self, Reason> {
        signal::on_missing_page(repair).map_err(|error| Reason::Refused {
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        })?;
        let start = mapping.start().as_ptr().expose_provenance();
        let entry = TABLE.iter().find(|entry| entry.claim(start, start + mapping.len()));
        Ok(Self { mapping, entry: entry.ok_or(Reason::TooMany)? })
    }

    /// Returns true if a page was missing. Data read since then may be zeros that no process wrote.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.entry.intact.load(Ordering::SeqCst) < self.entry.end.load(Ordering::Relaxed)
    }
}

impl Deref for Guarded {
    type Target = Mapping;

    #[inline]
    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `claim`.
        self.entry.start.store(FREE, Ordering::Release);
    }
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_broken = self.is_broken();
        f.debug_struct("Guarded")
            .field("mapping", &self.mapping)
            .field("is_broken", &is_broken)
            .finish()
    }
}

const FREE: usize = 0;
const CLAIMED: usize = 1;

/// A place for a range. `start` decides about access to the other fields: see the head of this
/// file.
struct RangeEntry {
    start: AtomicUsize,
    end: AtomicUsize,
    /// End of the file's own pages.
    intact: AtomicUsize,
}

static TABLE: [RangeEntry; MOST_GUARDED] = [const {
    RangeEntry {
        start: AtomicUsize::new(FREE),
        end: AtomicUsize::new(0),
        intact: AtomicUsize::new(0),
    }
}; MOST_GUARDED];

impl RangeEntry {
    /// Publishes a range in this entry. Returns false if the entry is in use.
    fn claim(&self, start: usize, end: usize) -> bool {
        // Acquire: pairs with the Release in `Guarded::drop`.
        let free = self.start.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            return false;
        }
        // Pairs with the Acquire fence in `covers`: a reader of a field below sees CLAIMED as well.
        fence(Ordering::Release);
        self.end.store(end, Ordering::Relaxed);
        self.intact.store(end, Ordering::Relaxed);
        // Pairs with the Acquire load in `covers`.
        self.start.store(start, Ordering::Release);
        true
    }

    fn covers(&self, page: usize) -> bool {
        // Pairs with the Release store in `claim`.
        let start = self.start.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Relaxed);
        // Pairs with the Release fence in `claim`.
        fence(Ordering::Acquire);
        let same = self.start.load(Ordering::Relaxed) == start;
        same && start > CLAIMED && (start..end).contains(&page)
    }

    /// Replaces this page and all following pages by zeros. Returns false if the kernel refuses.
    fn replace_from(&self, page: usize) -> bool {
        let end = self.intact.fetch_min(page, Ordering::SeqCst);
        if end <= page {
            return true;
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let start = ptr::with_exposed_provenance_mut(page);
        // SAFETY: the pages are part of a live, guarded mapping, the file ends before the first of
        // them, and `fetch_min` gives each page to one thread.
        unsafe { libc::mmap(start, end - page, access, flags, -1, 0) != libc::MAP_FAILED }
    }
}

/// Handles a missing page at this address. Returns true if the access can be repeated.
/// Async-signal-safe.
fn repair(address: usize) -> bool {
    // The size has been cached since the first mapping.
    let page = address & !(page_size() - 1);
    TABLE.iter().find(|entry| entry.covers(page)).is_some_and(|entry| entry.replace_from(page))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scope;

    /// Looks for these addresses only, as other tests have guarded mappings at the same time.
    fn is_listed(address: usize) -> bool {
        TABLE.iter().any(|entry| entry.covers(address))
    }

    #[test]
    fn a_range_is_listed_from_its_first_to_its_last_page_until_it_is_dropped() {
        let around = Mapping::new(4 * page_size(), Scope::Shared).unwrap();
        let (start, len) = around.into_raw();
        let [before, inner, after] = [(0, 1), (1, 2), (3, 1)].map(|(first, pages)| {
            let (offset, len) = (first * page_size(), pages * page_size());
            assert!(offset + len <= 4 * page_size());
            // SAFETY: the parts of one mapping are taken back once each.
            unsafe { Mapping::from_raw(start.add(offset), len) }
        });
        assert_eq!(before.len() + inner.len() + after.len(), len);
        let first = inner.start().addr().get();
        let guarded = Guarded::new(inner).unwrap();
        assert!(!guarded.is_broken());
        let listed =
            || [0, 1, 2, 3].map(|page| is_listed(first + page * page_size() - page_size()));
        assert_eq!(listed(), [false, true, true, false]);
        drop(guarded);
        assert_eq!(listed(), [false; 4]);
    }
}
