//! Programs that persist by libpmem, if it is installed, on a file of `/dev/shm`. It always
//! flushes as for persistent memory, even if the addresses belong to other memory. Without
//! `FLUSHES`, the same is written plainly, for the form that a task is compared with.

use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::{io, ptr};

use super::field::{Endless, LARGE, NEAR, Reports, repeat};
use crate::kit::SplitMix64;
use crate::kit::pmem::Library;

/// Folder of the mapped file.
const FOLDER: &str = "/dev/shm";
const RECORD: usize = 256;

/// Returns a copy: calls by pointers on the stack can be followed even in unoptimised code.
fn library() -> io::Result<Library> {
    Library::find().copied().map_err(io::Error::other)
}

/// Maps an unnamed file as shared memory.
fn map() -> io::Result<*mut u8> {
    let file = tempfile::tempfile_in(FOLDER)?;
    // SAFETY: the call takes plain integers. It fails if the file system is full, where a write to
    // the mapping would kill the process.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, LARGE as libc::off_t) } {
        0 => {}
        errno => return Err(io::Error::from_raw_os_error(errno)),
    }
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
    // SAFETY: a new mapping at an address chosen by the kernel.
    let address = unsafe { libc::mmap(ptr::null_mut(), LARGE, access, flags, file.as_raw_fd(), 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(address.cast())
}

/// P4's task: writes 256 bytes to random places.
pub(super) fn memmove<const FLUSHES: bool>(reports: &mut Reports<'_>) -> Endless {
    let (pmem, target, mut random) = (library()?, map()?, SplitMix64(1));
    let data = if FLUSHES { LARGE } else { NEAR };
    let record = [1_u8; RECORD];
    repeat(reports, || {
        let at = random.below((data / RECORD) as u64) as usize * RECORD;
        // SAFETY: the target is mapped for these bytes, and has no other user.
        unsafe {
            let target = target.add(at);
            if FLUSHES {
                (pmem.memmove_persist)(target.cast(), record.as_ptr().cast(), RECORD);
            } else {
                ptr::copy_nonoverlapping(record.as_ptr(), target, black_box(RECORD));
            }
        };
    })
}

/// Increments a word, and persists it each time.
pub(super) fn counter<const FLUSHES: bool>(reports: &mut Reports<'_>) -> Endless {
    let (pmem, target) = (library()?, map()?.cast::<u64>());
    repeat(reports, || {
        // SAFETY: the first word is mapped, and has no other user.
        unsafe {
            *target += 1;
            if FLUSHES {
                (pmem.persist)(target.cast(), 8);
            }
            black_box(target);
        }
    })
}

/// Fills whole kilobytes at random places with one value.
pub(super) fn memset<const FLUSHES: bool>(reports: &mut Reports<'_>) -> Endless {
    const BLOCK: usize = 1 << 10;
    let (pmem, target, mut random) = (library()?, map()?, SplitMix64(1));
    let data = if FLUSHES { LARGE } else { NEAR };
    repeat(reports, || {
        let at = random.below((data / BLOCK) as u64) as usize * BLOCK;
        // SAFETY: the target is mapped for these bytes, and has no other user.
        unsafe {
            let target = target.add(at);
            if FLUSHES {
                (pmem.memset_persist)(target.cast(), at as i32, BLOCK);
            } else {
                target.write_bytes(at as u8, black_box(BLOCK));
            }
        };
    })
}
