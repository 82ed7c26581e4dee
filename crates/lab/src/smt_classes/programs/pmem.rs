//! Programs that persist by libpmem, if that is installed: on a file of `/dev/shm`. Its flushes are those for
//! persistent memory whatever is behind the addresses.

use std::{convert::Infallible, ffi::CStr, io, mem, os::fd::AsRawFd, ptr};

use super::field::FAR;
use crate::{Skip, random::SplitMix64};

const LIBRARY: &CStr = c"libpmem.so.1";
/// Where memory is a file's.
const FOLDER: &str = "/dev/shm";
const RECORD: usize = 256;

/// The functions of libpmem, of which the manual is pmem(7).
struct Pmem {
    memmove_persist: unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8,
    persist: unsafe extern "C" fn(*const u8, usize),
    memset_persist: unsafe extern "C" fn(*mut u8, i32, usize) -> *mut u8,
}

fn open() -> Option<*mut libc::c_void> {
    // SAFETY: the name is a string; the library's constructors read the environment and the processor's features.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
    (!library.is_null()).then_some(library)
}

/// Looks for it, and leaves nothing of it: a process that has it loaded might be one that uses it.
pub(super) fn is_installed() -> Result<(), Skip> {
    let library =
        open().ok_or_else(|| Skip::new("no libpmem.so.1 (Debian: apt install libpmem1)"))?;
    // SAFETY: it was opened here, and nothing of it was called.
    unsafe { libc::dlclose(library) };
    Ok(())
}

fn library() -> io::Result<Pmem> {
    // SAFETY: the functions have these types in pmem(7).
    unsafe {
        let library = open().ok_or_else(|| io::Error::other("libpmem.so.1 is gone"))?;
        let function = |name: &CStr| match libc::dlsym(library, name.as_ptr()) {
            symbol if symbol.is_null() => Err(io::Error::other(format!("libpmem has no {name:?}"))),
            symbol => Ok(symbol),
        };
        Ok(Pmem {
            memmove_persist: mem::transmute::<
                *mut libc::c_void,
                unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8,
            >(function(c"pmem_memmove_persist")?),
            memset_persist: mem::transmute::<
                *mut libc::c_void,
                unsafe extern "C" fn(*mut u8, i32, usize) -> *mut u8,
            >(function(c"pmem_memset_persist")?),
            persist: mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*const u8, usize)>(
                function(c"pmem_persist")?,
            ),
        })
    }
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
pub(super) fn memmove(ready: &mut dyn FnMut()) -> io::Result<Infallible> {
    let (pmem, target, mut random) = (library()?, map()?, SplitMix64(1));
    let record = [1_u8; RECORD];
    ready();
    loop {
        let at = random.below((FAR / RECORD) as u64) as usize * RECORD;
        // SAFETY: the target is mapped for so many bytes and nobody else's.
        unsafe { (pmem.memmove_persist)(target.add(at), record.as_ptr(), RECORD) };
    }
}

/// A word that is counted up, persistent each time.
pub(super) fn counter(ready: &mut dyn FnMut()) -> io::Result<Infallible> {
    let (pmem, target) = (library()?, map()?.cast::<u64>());
    ready();
    loop {
        // SAFETY: the first word is mapped and nobody else's.
        unsafe {
            *target += 1;
            (pmem.persist)(target.cast(), 8);
        }
    }
}

/// Whole kilobytes at random places, all of one value.
pub(super) fn memset(ready: &mut dyn FnMut()) -> io::Result<Infallible> {
    const BLOCK: usize = 1 << 10;
    let (pmem, target, mut random) = (library()?, map()?, SplitMix64(1));
    ready();
    loop {
        let at = random.below((FAR / BLOCK) as u64) as usize * BLOCK;
        // SAFETY: the target is mapped for so many bytes and nobody else's.
        unsafe { (pmem.memset_persist)(target.add(at), at as i32, BLOCK) };
    }
}
