//! Pages that fault when touched.

use std::ptr::NonNull;
use std::sync::OnceLock;

use super::{Mapping, MemoryError, page_size};
use crate::Scope;
use crate::thread::errno;

const MADV_GUARD_INSTALL: libc::c_int = 102;
const MADV_GUARD_REMOVE: libc::c_int = 103;

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
    /// a scratch page.
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
            });
            if light { GuardKind::Light } else { GuardKind::Protect }
        })
    }
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
    // SAFETY: the caller's promise; every guard lies within the area.
    let each = || unsafe {
        (0..len)
            .step_by(stride)
            .try_for_each(|offset| install_range(start.add(offset), guard, kind))
    };
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
    use crate::memory::populate;

    /// Returns true if a write there would fault. Asks the kernel instead of trying.
    fn faults(at: NonNull<u8>) -> bool {
        populate(at, page_size()).is_err()
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
