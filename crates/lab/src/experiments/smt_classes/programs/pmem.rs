//! Programs that persist by libpmem, if that is installed: on a file of `/dev/shm`. Its flushes are those for
//! persistent memory whatever is behind the addresses.

use std::os::fd::AsRawFd;
use std::{io, ptr};

use super::field::{Endless, FAR, repeat};
use crate::kit::SplitMix64;
use crate::kit::pmem::Library;

/// Where memory is a file's.
const FOLDER: &str = "/dev/shm";
const RECORD: usize = 256;

/// A copy: calls by pointers on the stack can be followed, also where nothing is optimised.
fn library() -> io::Result<Library> {
    Library::find().copied().map_err(io::Error::other)
}

/// A file that has no name any more, mapped for all who have it.
fn map() -> io::Result<*mut u8> {
    let file = tempfile::tempfile_in(FOLDER)?;
    // SAFETY: the call takes plain integers. It says if the file system is full, where a write to the mapping would kill.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, FAR as libc::off_t) } {
        0 => {}
        errno => return Err(io::Error::from_raw_os_error(errno)),
    }
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
    // SAFETY: a new mapping, wherever there is room.
    let address = unsafe { libc::mmap(ptr::null_mut(), FAR, access, flags, file.as_raw_fd(), 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(address.cast())
}

/// P4's task: 256 bytes at random places.
pub(super) fn memmove(ready: &mut dyn FnMut()) -> Endless {
    let (pmem, target, mut random) = (library()?, map()?, SplitMix64(1));
    let record = [1_u8; RECORD];
    repeat(ready, || {
        let at = random.below((FAR / RECORD) as u64) as usize * RECORD;
        // SAFETY: the target is mapped for so many bytes and nobody else's.
        unsafe { (pmem.memmove_persist)(target.add(at).cast(), record.as_ptr().cast(), RECORD) };
    })
}

/// A word that is counted up, persistent each time.
pub(super) fn counter(ready: &mut dyn FnMut()) -> Endless {
    let (pmem, target) = (library()?, map()?.cast::<u64>());
    repeat(ready, || {
        // SAFETY: the first word is mapped and nobody else's.
        unsafe {
            *target += 1;
            (pmem.persist)(target.cast(), 8);
        }
    })
}

/// Whole kilobytes at random places, all of one value.
pub(super) fn memset(ready: &mut dyn FnMut()) -> Endless {
    const BLOCK: usize = 1 << 10;
    let (pmem, target, mut random) = (library()?, map()?, SplitMix64(1));
    repeat(ready, || {
        let at = random.below((FAR / BLOCK) as u64) as usize * BLOCK;
        // SAFETY: the target is mapped for so many bytes and nobody else's.
        unsafe { (pmem.memset_persist)(target.add(at).cast(), at as i32, BLOCK) };
    })
}
