//! Pages that fault when touched.

use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use super::{Mapping, MemoryError, is_readable, page_size};
use crate::Scope;
use crate::thread::errno;

const MADV_GUARD_INSTALL: libc::c_int = 102;
const MADV_GUARD_REMOVE: libc::c_int = 103;
/// The calling process, in place of a descriptor of it.
const PIDFD_SELF: libc::c_int = -10_000;
/// Maximum number of guards that one system call installs: as many as a small stack has room for.
const BATCH: usize = 64;

/// The mechanism of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GuardKind {
    /// `MADV_GUARD_INSTALL`: an entry in the page table, no mapping of its own.
    ///
    /// Such a guard belongs to the process that installed it. A forked child inherits it, but after
    /// the fork no other process of a shared mapping sees a newly installed guard.
    Light,
    /// `mprotect`: splits the mapping in two, which counts against `vm.max_map_count`.
    Protect,
}

impl GuardKind {
    /// The better kind that this kernel offers for private memory; see [`GuardKind::probe_for`].
    pub fn probe() -> Self {
        Self::probe_for(Scope::Private)
    }

    /// The better kind that this kernel offers for memory of this `scope`, found once by a trial on
    /// a scratch page: an emulator may accept the request and do nothing.
    ///
    /// The two scopes may differ: the first kernels with light guards had them for private memory
    /// only.
    pub fn probe_for(scope: Scope) -> Self {
        static PRIVATE: OnceLock<GuardKind> = OnceLock::new();
        static SHARED: OnceLock<GuardKind> = OnceLock::new();
        let kind = match scope {
            Scope::Private => &PRIVATE,
            Scope::Shared => &SHARED,
        };
        *kind.get_or_init(|| {
            let light = Mapping::new(page_size(), scope).is_ok_and(|page| {
                // SAFETY: the scratch page is this function's own and holds nothing.
                unsafe { install_guard(page.start(), page.len(), GuardKind::Light) }.is_ok()
                    && !is_readable(page.start().as_ptr())
            });
            if light { GuardKind::Light } else { GuardKind::Protect }
        })
    }
}

/// Returns true if one system call installs many light guards, found once by a trial.
///
/// Kernels before 6.15 refuse that (`process_madvise` for a process itself, without a descriptor),
/// as do some seccomp profiles, for example the default profile of Docker.
pub fn guards_in_batches() -> bool {
    static BATCHES: OnceLock<bool> = OnceLock::new();
    *BATCHES.get_or_init(|| {
        Mapping::new(2 * page_size(), Scope::Private).is_ok_and(|pages| {
            // SAFETY: the scratch pages are this function's own and hold nothing.
            unsafe { install_batch(pages.start(), page_size(), page_size(), 2) }
        })
    })
}

/// Makes `len` bytes from `start` fault when touched, and discards their contents.
///
/// # Errors
///
/// See [`install_guards`].
///
/// # Safety
///
/// See [`install_guards`].
pub unsafe fn install_guard(
    start: NonNull<u8>,
    len: usize,
    kind: GuardKind,
) -> Result<(), MemoryError> {
    // SAFETY: the caller's promise, for an area that consists of one guard.
    unsafe { install_guards(start, len, len, len, kind) }
}

/// Makes the first `guard` bytes of every `stride` bytes of an area fault when touched, and
/// discards their contents.
///
/// Light guards are installed [in batches](guards_in_batches) where the kernel allows that.
///
/// Light guards cannot be put on locked memory. A locked area is unlocked, guarded, and locked
/// again as a whole (`MLOCK_ONFAULT`), which keeps it one mapping.
///
/// # Errors
///
/// [`MemoryError::Mappings`] if `mprotect` may not split the mapping once more,
/// [`MemoryError::Locked`] if locked memory cannot be locked again. Guards installed before the
/// error stay.
///
/// # Safety
///
/// The area belongs to the caller and consists of `len` bytes in whole pages within one mapping.
/// The contents of the guards are not needed any more. `stride` and `guard` are whole pages with `0
/// < guard <= stride`.
pub unsafe fn install_guards(
    start: NonNull<u8>,
    len: usize,
    stride: usize,
    guard: usize,
    kind: GuardKind,
) -> Result<(), MemoryError> {
    let batch = if kind == GuardKind::Light && guards_in_batches() { BATCH } else { 1 };
    // SAFETY: the caller's promise.
    let each = || unsafe { install_each(start, len, stride, guard, kind, batch) };
    match each() {
        Err(MemoryError::Refused { errno: libc::EINVAL }) if kind == GuardKind::Light => {
            let area = start.as_ptr().cast();
            // SAFETY: locking and unlocking do not change the contents of memory.
            if unsafe { libc::munlock(area, len) } != 0 {
                return Err(MemoryError::diagnose(errno(), len));
            }
            each()?;
            // SAFETY: as above.
            match unsafe { libc::mlock2(area, len, libc::MLOCK_ONFAULT as _) } {
                0 => Ok(()),
                _ => Err(MemoryError::Locked { bytes: len }),
            }
        }
        result => result,
    }
}

/// Installs the guards of an area, up to `batch` of them with one system call.
///
/// # Safety
///
/// The conditions of [`install_guards`].
unsafe fn install_each(
    start: NonNull<u8>,
    len: usize,
    stride: usize,
    guard: usize,
    kind: GuardKind,
    batch: usize,
) -> Result<(), MemoryError> {
    let count = len.div_ceil(stride);
    for first in (0..count).step_by(batch) {
        let guards = batch.min(count - first);
        // SAFETY: every guard lies within the area, which the caller owns.
        unsafe {
            let at = start.add(first * stride);
            // One by one where the batch was refused, or stopped early: that tells the reason.
            if guards == 1 || !install_batch(at, stride, guard, guards) {
                (0..guards).try_for_each(|i| install_range(at.add(i * stride), guard, kind))?;
            }
        }
    }
    Ok(())
}

/// Installs `count` light guards, at most [`BATCH`], with one system call; returns false if it
/// could not install all of them.
///
/// # Safety
///
/// The conditions of [`install_guards`] for an area that begins with `count` strides.
unsafe fn install_batch(start: NonNull<u8>, stride: usize, guard: usize, count: usize) -> bool {
    let mut ranges = [libc::iovec { iov_base: ptr::null_mut(), iov_len: guard }; BATCH];
    for (i, range) in ranges[..count].iter_mut().enumerate() {
        // SAFETY: within the area, by this function's contract.
        range.iov_base = unsafe { start.add(i * stride) }.as_ptr().cast();
    }
    // SAFETY: the caller owns these pages and does not need their contents any more; the ranges are
    // live.
    let advised = unsafe {
        let (ranges, advice) = (ranges.as_ptr(), MADV_GUARD_INSTALL);
        libc::syscall(libc::SYS_process_madvise, PIDFD_SELF, ranges, count, advice, 0)
    };
    usize::try_from(advised) == Ok(count * guard)
}

/// # Safety
///
/// The conditions of [`install_guard`].
unsafe fn install_range(
    start: NonNull<u8>,
    len: usize,
    kind: GuardKind,
) -> Result<(), MemoryError> {
    let start = start.as_ptr().cast();
    // SAFETY: the caller owns these pages and does not need their contents any more.
    let result = unsafe {
        match kind {
            GuardKind::Light => libc::madvise(start, len, MADV_GUARD_INSTALL),
            GuardKind::Protect => libc::mprotect(start, len, libc::PROT_NONE),
        }
    };
    match (result, kind) {
        (0, _) => Ok(()),
        // Removing access commits no memory, so only the split can lack a resource.
        (_, GuardKind::Protect) if errno() == libc::ENOMEM => Err(MemoryError::Mappings),
        _ => Err(MemoryError::diagnose(errno(), len)),
    }
}

/// Makes an area ordinary memory again, for both kinds of guards.
///
/// # Errors
///
/// [`MemoryError::Refused`] if the kernel keeps a protection.
///
/// # Safety
///
/// The area belongs to the caller and consists of whole pages within one mapping, which `mprotect`
/// may have split.
pub unsafe fn remove_guards(start: NonNull<u8>, len: usize) -> Result<(), MemoryError> {
    let area = start.as_ptr().cast();
    // SAFETY: the caller owns the area. A kernel without light guards refuses the advice and has
    // none to remove.
    unsafe {
        libc::madvise(area, len, MADV_GUARD_REMOVE);
        match libc::mprotect(area, len, libc::PROT_READ | libc::PROT_WRITE) {
            0 => Ok(()),
            _ => Err(MemoryError::diagnose(errno(), len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if an access there would fault. Asks the kernel instead of trying.
    fn faults(at: NonNull<u8>) -> bool {
        !is_readable(at.as_ptr())
    }

    fn kinds(scope: Scope) -> Vec<GuardKind> {
        if GuardKind::probe_for(scope) == GuardKind::Protect {
            println!("skipped: this kernel has no MADV_GUARD_INSTALL for {scope:?} memory");
            return vec![GuardKind::Protect];
        }
        vec![GuardKind::Light, GuardKind::Protect]
    }

    #[test]
    fn every_stride_starts_with_a_guard() {
        let (page, stride) = (page_size(), 4 * page_size());
        for scope in [Scope::Private, Scope::Shared] {
            for kind in kinds(scope) {
                let area = Mapping::new(8 * stride, scope).unwrap();
                // SAFETY: the area is fresh and this test's own.
                unsafe {
                    install_guards(area.start(), area.len(), stride, 2 * page, kind).unwrap();
                    for offset in (0..area.len()).step_by(page) {
                        let guarded = offset % stride < 2 * page;
                        assert_eq!(faults(area.start().add(offset)), guarded, "{kind:?} {offset}");
                    }
                    remove_guards(area.start(), area.len()).unwrap();
                }
                assert!(!faults(area.start()));
            }
        }
    }

    /// More guards than a batch has, a last batch that is not full, and one of a single guard.
    #[test]
    fn batches_guard_what_single_calls_guard() {
        let (page, stride) = (page_size(), 2 * page_size());
        let sizes = if guards_in_batches() {
            vec![1, 2, BATCH]
        } else {
            println!("skipped: this kernel installs no guards in batches");
            vec![1]
        };
        for batch in sizes {
            for count in [1, 2, BATCH - 1, BATCH, BATCH + 1, 2 * BATCH + 2] {
                let area = Mapping::new(count * stride, Scope::Private).unwrap();
                // SAFETY: the area is fresh and this test's own.
                let page_at = |index: usize| unsafe { area.start().add(index * page) };
                let (start, len, kind) = (area.start(), area.len(), kinds(Scope::Private)[0]);
                // SAFETY: as above.
                unsafe { install_each(start, len, stride, page, kind, batch) }.unwrap();
                let guarded: Vec<_> = (0..2 * count).map(|index| faults(page_at(index))).collect();
                let expected: Vec<_> = (0..2 * count).map(|index| index % 2 == 0).collect();
                assert_eq!(guarded, expected, "{count} in batches of {batch}");
            }
        }
    }

    /// A batch that stops in the middle is completed by single calls, which name the reason.
    #[test]
    fn a_batch_that_meets_foreign_memory_is_an_error() {
        let page = page_size();
        let area = Mapping::new(8 * page, Scope::Private).unwrap();
        // SAFETY: the last pages of a mapping that is not used any more, which are mapped again
        // before it ends.
        unsafe {
            let hole = area.start().add(4 * page).as_ptr().cast();
            assert_eq!(libc::munmap(hole, 4 * page), 0);
            let result =
                install_guards(area.start(), area.len(), 2 * page, page, GuardKind::probe());
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            let again = libc::mmap(hole, 4 * page, libc::PROT_NONE, flags, -1, 0);
            assert_eq!(again, hole, "another thread has taken the hole");
            assert!(result.is_err(), "{result:?}");
        }
    }

    #[test]
    fn locked_memory_is_guarded_and_stays_locked() {
        if GuardKind::probe() == GuardKind::Protect {
            println!("skipped: this kernel has no MADV_GUARD_INSTALL");
            return;
        }
        let area = Mapping::new(8 * page_size(), Scope::Private).unwrap();
        let start = area.start().as_ptr();
        // SAFETY: locking does not change the contents of memory.
        if unsafe { libc::mlock(start.cast(), area.len()) } != 0 {
            println!("skipped: RLIMIT_MEMLOCK is below {} bytes", area.len());
            return;
        }
        let stride = 4 * page_size();
        // SAFETY: the area is fresh and this test's own.
        unsafe {
            install_guards(area.start(), area.len(), stride, page_size(), GuardKind::Light)
                .unwrap();
            assert!(faults(area.start()) && faults(area.start().add(stride)));
            assert!(!faults(area.start().add(page_size())));
            let error = crate::memory::discard(area.start(), area.len(), Scope::Private);
            assert_eq!(error, Err(MemoryError::Refused { errno: libc::EINVAL }), "still locked");
        }
    }
}
