//! Pages: mapping, advice, guards, copies of shared bytes.

mod copy;
mod error;
mod guard;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use crate::Scope;
use crate::atomic::{AtomicPtr, Ordering};

pub use copy::copy_racing;
pub use error::MemoryError;
pub use guard::{GuardKind, guards_in_batches, install_guard, install_guards, remove_guards};

/// The size of a page in bytes.
pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    // SAFETY: `sysconf` takes a plain integer.
    *SIZE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize })
}

/// `bytes` rounded up to whole pages; `None` if that exceeds the address space.
pub fn whole_pages(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(page_size())
}

/// Whole pages that are unmapped on drop: zeroed anonymous memory, or a
/// [file](crate::file::SharedFile::map).
///
/// Anonymous pages are committed when first touched (`MAP_NORESERVE`).
///
/// # Examples
///
/// ```
/// use daiko_sys::{Scope, memory::Mapping};
///
/// let mapping = Mapping::new(1 << 30, Scope::Private)?;
/// assert_eq!(mapping.len(), 1 << 30);
/// # Ok::<(), daiko_sys::memory::MemoryError>(())
/// ```
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and the type only hands out addresses.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `bytes` bytes, readable and writable. Forked processes inherit a shared
    /// mapping.
    ///
    /// # Errors
    ///
    /// The limit that refused the memory.
    pub fn new(bytes: usize, scope: Scope) -> Result<Self, MemoryError> {
        Self::aligned(bytes, 1, scope)
    }

    /// [`Mapping::new`] with a start that is a multiple of `align`, a power of two.
    ///
    /// # Errors
    ///
    /// The limit that refused the memory.
    pub fn aligned(bytes: usize, align: usize, scope: Scope) -> Result<Self, MemoryError> {
        let len = whole_pages(bytes.max(1)).ok_or(MemoryError::Exhausted { bytes })?;
        let slack = align.saturating_sub(page_size());
        let total = len.checked_add(slack).ok_or(MemoryError::Exhausted { bytes })?;
        let start = map(total, scope)?;
        let skip = start.align_offset(align);
        // SAFETY: the aligned start and its `len` bytes lie inside the fresh mapping; the
        // surrounding pages have no other owner.
        unsafe {
            let inner = start.add(skip);
            unmap(start, skip);
            unmap(inner.add(len), slack - skip);
            Ok(Self { start: inner, len })
        }
    }

    /// Maps the first `bytes` bytes of a file, shared with all processes that map it.
    pub(crate) fn of_file(file: BorrowedFd<'_>, bytes: usize) -> Result<Self, MemoryError> {
        let len = whole_pages(bytes).ok_or(MemoryError::Exhausted { bytes })?;
        Ok(Self { start: map_pages(len, libc::MAP_SHARED, file.as_raw_fd())?, len })
    }

    /// The address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The length in bytes, whole pages.
    #[expect(clippy::len_without_is_empty, reason = "a mapping has at least one page")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Gives up ownership; [`Mapping::from_raw`] takes it back.
    pub fn into_raw(self) -> (NonNull<u8>, usize) {
        let raw = (self.start, self.len);
        std::mem::forget(self);
        raw
    }

    /// Takes ownership of the pages that [`Mapping::into_raw`] returned.
    ///
    /// # Safety
    ///
    /// `start` and `len` come from one `into_raw` and are taken back once.
    pub unsafe fn from_raw(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the pages are this value's own.
        unsafe { unmap(self.start, self.len) };
    }
}

fn map(len: usize, scope: Scope) -> Result<NonNull<u8>, MemoryError> {
    let sharing = match scope {
        Scope::Private => libc::MAP_PRIVATE,
        Scope::Shared => libc::MAP_SHARED,
    };
    map_pages(len, sharing | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1)
}

fn map_pages(len: usize, flags: libc::c_int, file: i32) -> Result<NonNull<u8>, MemoryError> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place that the kernel chooses touches no
    // existing memory.
    let start = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, file, 0) };
    if start == libc::MAP_FAILED {
        return Err(MemoryError::diagnose(crate::thread::errno(), len));
    }
    Ok(NonNull::new(start.cast()).expect("the kernel never maps page zero unasked"))
}

/// # Safety
///
/// The pages belong to the caller, which does not use them any more.
unsafe fn unmap(start: NonNull<u8>, len: usize) {
    if len == 0 {
        return;
    }
    // SAFETY: the caller's promise. Cutting a hole into a mapping that the kernel merged with an
    // adjacent one may exceed vm.max_map_count; then the memory goes back, but its addresses stay
    // taken.
    unsafe {
        if libc::munmap(start.as_ptr().cast(), len) != 0 {
            libc::madvise(start.as_ptr().cast(), len, libc::MADV_DONTNEED);
        }
    }
}

/// Returns the start of the mapping in `slot`, which is null until the first call of `map`. That
/// mapping is never unmapped.
///
/// It takes no lock, which a fork by another thread would leave locked in the child. Of two first
/// callers, one unmaps its own.
///
/// # Errors
///
/// Those of `map`.
pub fn map_once<T, E>(
    slot: &AtomicPtr<T>,
    map: impl FnOnce() -> Result<Mapping, E>,
) -> Result<*mut T, E> {
    // Acquire, here and at the exchange: pairs with the Release of the exchange, behind `map`.
    let mapped = slot.load(Ordering::Acquire);
    if !mapped.is_null() {
        return Ok(mapped);
    }
    let mapping = map()?;
    let new = mapping.start().as_ptr().cast();
    Ok(match slot.compare_exchange(mapped, new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => mapping.into_raw().0.as_ptr().cast(),
        Err(first) => first,
    })
}

/// Makes the kernel clear the pages of a private `mapping` in children that are forked.
///
/// # Errors
///
/// The error of `madvise(MADV_WIPEONFORK)`, which Linux has since 4.14.
pub fn wipe_on_fork(mapping: &Mapping) -> std::io::Result<()> {
    // SAFETY: the advice concerns copies of the pages in other processes.
    let result = unsafe {
        libc::madvise(mapping.start().as_ptr().cast(), mapping.len(), libc::MADV_WIPEONFORK)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Keeps the kernel from backing these pages with huge pages. Advice only.
pub fn advise_no_huge_pages(start: NonNull<u8>, len: usize) {
    // SAFETY: this advice never changes the contents of memory.
    unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_NOHUGEPAGE) };
}

/// Commits these pages now, so that their first use does not fault.
///
/// # Errors
///
/// [`MemoryError::Refused`] with `EFAULT` if a guard lies among them, with `EINVAL` on kernels
/// older than 5.14; otherwise the limit that refused the memory.
pub fn populate(start: NonNull<u8>, len: usize) -> Result<(), MemoryError> {
    // SAFETY: populating faults pages in like a write, without changing them.
    match unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_POPULATE_WRITE) } {
        0 => Ok(()),
        _ => Err(MemoryError::diagnose(crate::thread::errno(), len)),
    }
}

/// Returns true if the kernel can read the byte for this process: no guard lies there. Also returns
/// true if it cannot be asked, as there is no descriptor left for a pipe.
///
/// # Examples
///
/// ```
/// use daiko_sys::memory::is_readable;
///
/// let byte = 1_u8;
/// assert!(is_readable((&raw const byte).into()));
/// assert!(!is_readable(std::ptr::null()));
/// ```
pub fn is_readable(byte: *const u8) -> bool {
    // Not a call that takes a structure or a path: valgrind reads these itself, and faults.
    let Ok((_reader, writer)) = io::pipe() else { return true };
    // SAFETY: the kernel reads the byte in its own way, and refuses an address that has no memory.
    unsafe { libc::write(writer.as_raw_fd(), byte.cast(), 1) == 1 }
}

/// Succeeds if this process could map `count` more areas a moment ago. Meant for code that aborts
/// if a mapping fails, as a thread of `std` does for its alternate stack.
///
/// # Errors
///
/// The limit that refuses them.
pub fn room_for_mappings(count: usize) -> Result<(), MemoryError> {
    let bytes = count.checked_mul(2 * page_size()).ok_or(MemoryError::Mappings)?;
    let mapping = Mapping::new(bytes, Scope::Private)?;
    // Each second page becomes a mapping of its own.
    let has_room = (0..count).all(|at| {
        // SAFETY: a page of an unused mapping.
        unsafe {
            let page = mapping.start().add(2 * at * page_size());
            libc::mprotect(page.as_ptr().cast(), page_size(), libc::PROT_NONE) == 0
        }
    });
    if has_room { Ok(()) } else { Err(MemoryError::Mappings) }
}

/// Returns the memory of these pages, which read as zero afterwards. Guards stay.
///
/// # Errors
///
/// [`MemoryError::Refused`] with `EINVAL` if they are locked.
///
/// # Safety
///
/// The pages belong to the caller, lie in one mapping of this `scope`, and their contents are not
/// needed any more.
pub unsafe fn discard(start: NonNull<u8>, len: usize, scope: Scope) -> Result<(), MemoryError> {
    let advice = match scope {
        Scope::Private => libc::MADV_DONTNEED,
        Scope::Shared => libc::MADV_REMOVE,
    };
    // SAFETY: the caller gives these pages up.
    match unsafe { libc::madvise(start.as_ptr().cast(), len, advice) } {
        0 => Ok(()),
        _ => Err(MemoryError::diagnose(crate::thread::errno(), len)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;
    use crate::testing::LinuxPart;

    const SCOPES: [Scope; 2] = [Scope::Private, Scope::Shared];

    #[test]
    fn mappings_are_zeroed_aligned_and_writable() {
        for scope in SCOPES {
            let mapping = Mapping::aligned(10_000, 1 << 20, scope).unwrap();
            assert_eq!(mapping.len(), whole_pages(10_000).unwrap());
            assert_eq!(mapping.start().as_ptr().align_offset(1 << 20), 0);
            // SAFETY: the mapping is live and this test's own.
            let bytes =
                unsafe { std::slice::from_raw_parts_mut(mapping.start().as_ptr(), mapping.len()) };
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(0xA5);
        }
    }

    #[test]
    fn a_dropped_mapping_gives_its_addresses_back() {
        for _ in 0..300 {
            let (start, len) = Mapping::new(1 << 40, Scope::Private).unwrap().into_raw();
            // SAFETY: `into_raw` has just returned these parts.
            drop(unsafe { Mapping::from_raw(start, len) });
        }
    }

    #[test]
    fn discarded_pages_read_as_zero() {
        for scope in SCOPES {
            if scope == Scope::Shared && LinuxPart::Removal.is_lacking() {
                continue;
            }
            let mapping = Mapping::new(4 * page_size(), scope).unwrap();
            populate(mapping.start(), mapping.len()).unwrap();
            // SAFETY: the mapping is live and this test's own.
            unsafe {
                mapping.start().write(7);
                discard(mapping.start(), mapping.len(), scope).unwrap();
                assert_eq!(mapping.start().read(), 0);
            }
        }
    }

    #[test]
    fn unreserved_memory_is_not_resident() {
        let before = limits::status_kib("VmRSS").unwrap();
        let mapping = Mapping::new(1 << 34, Scope::Private).unwrap();
        advise_no_huge_pages(mapping.start(), mapping.len());
        let grown = limits::status_kib("VmRSS").unwrap().saturating_sub(before);
        assert!(grown < 1 << 20, "{grown} KiB resident of an untouched 16 GiB");
    }

    #[test]
    fn an_absurd_size_is_an_error() {
        for bytes in [usize::MAX, usize::MAX / 2, 1 << 50] {
            let error = Mapping::new(bytes, Scope::Private).unwrap_err();
            assert!(matches!(error, MemoryError::Exhausted { .. }), "{error:?}");
        }
    }
}
