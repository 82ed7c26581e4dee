//! Memory that the program may share with other processes.
//!
//! A futex that the program does not call private may lie in memory of its own all the same. The
//! engine serves it only as long as the program shares no memory, which these functions note. They
//! are no doors: an allocator may call them before there is an engine.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::behind::next;

/// True once the program has, or is about to have, shared memory.
pub(crate) static IS_SHARED: AtomicBool = AtomicBool::new(false);

/// A function behind this library, found at the first call.
struct Next(AtomicPtr<c_void>, &'static CStr);

impl Next {
    fn get(&self) -> *mut c_void {
        let known = self.0.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = next(self.1);
        self.0.store(found, Ordering::Relaxed);
        found
    }
}

/// # Safety
///
/// As for `mmap`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    type Mmap =
        unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, libc::off_t) -> *mut c_void;
    static NEXT: Next = Next(AtomicPtr::new(std::ptr::null_mut()), c"mmap");
    if flags & libc::MAP_TYPE != libc::MAP_PRIVATE {
        IS_SHARED.store(true, Ordering::SeqCst);
    }
    // SAFETY: the function has this type; the rest by this function's contract.
    unsafe {
        let mmap = std::mem::transmute::<*mut c_void, Mmap>(NEXT.get());
        mmap(address, bytes, protection, flags, file, offset)
    }
}

/// # Safety
///
/// As for `mmap64`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off64_t,
) -> *mut c_void {
    // SAFETY: by this function's contract. Offsets have 64 bits in both.
    unsafe { mmap(address, bytes, protection, flags, file, offset) }
}

/// # Safety
///
/// As for `shmat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn shmat(segment: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    type Shmat = unsafe extern "C" fn(c_int, *const c_void, c_int) -> *mut c_void;
    static NEXT: Next = Next(AtomicPtr::new(std::ptr::null_mut()), c"shmat");
    IS_SHARED.store(true, Ordering::SeqCst);
    // SAFETY: the function has this type; the rest by this function's contract.
    unsafe {
        let shmat = std::mem::transmute::<*mut c_void, Shmat>(NEXT.get());
        shmat(segment, address, flags)
    }
}
