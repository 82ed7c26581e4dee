//! The thread-locals that the C library keeps for itself, as they are in a new thread.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use crate::abi::{Abi, at};

/// The locale of the process, as `locale.h` names it.
const LC_GLOBAL_LOCALE: libc::locale_t = ptr::without_provenance_mut(usize::MAX);

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
    fn __res_nclose(resolver: *mut c_void);
}

/// Renews the library's own values in the block of the calling context.
///
/// The caches of `malloc` stay: they are not visible, and worth keeping.
///
/// # Safety
///
/// The calling context runs with the block at `pointer`, and no code of the program has run in it.
pub(crate) unsafe fn renew(abi: &Abi, pointer: usize) {
    // SAFETY: the values lie in the block, which only the calling context uses; the functions
    // change the state of the calling context.
    unsafe {
        at::<c_int>(pointer, abi.errno).write(0);
        at::<c_int>(pointer, abi.h_errno).write(0);
        // Also the tables of `ctype.h`.
        libc::uselocale(LC_GLOBAL_LOCALE);
        pthread_setcancelstate(0, ptr::null_mut());
        pthread_setcanceltype(0, ptr::null_mut());
        renew_robust_list(abi, pointer);
        renew_resolver(abi, pointer);
        renew_modules(abi, pointer);
    }
}

/// Empties the list of robust mutexes, of which a context may have kept one locked.
unsafe fn renew_robust_list(abi: &Abi, pointer: usize) {
    let Some(head) = abi.robust else { return };
    let first = at::<usize>(pointer, head as isize);
    // SAFETY: the head and the pointer to the last entry before it lie in the block.
    unsafe {
        first.write(first.addr());
        first.sub(1).write(first.addr());
    }
}

/// Closes the sockets of the resolver, and forgets its settings.
unsafe fn renew_resolver(abi: &Abi, pointer: usize) {
    /// `struct __res_state` has two `int` before its options, and this size.
    const OPTIONS: usize = 8;
    const BYTES: usize = 568;
    let resolver = at::<u8>(pointer, abi.resolver as isize);
    // SAFETY: the state lies in the block; the library closes what it has opened.
    unsafe {
        let options = resolver.add(OPTIONS).cast::<usize>();
        if options.read() != 0 {
            __res_nclose(resolver.cast());
            resolver.write_bytes(0, BYTES);
        }
    }
}

/// An entry of the vector of modules. The first has the generation, the one before it the number of
/// entries that follow.
#[repr(C)]
struct Entry {
    value: usize,
    to_free: *mut c_void,
}

/// Frees the thread-locals of modules that were loaded later: they are allocated again, with their
/// first values, when they are next used.
unsafe fn renew_modules(abi: &Abi, pointer: usize) {
    // SAFETY: the vector belongs to the block; only the calling context changes it.
    let modules = unsafe {
        let vector = at::<*mut Entry>(pointer, abi.vector as isize).read();
        slice::from_raw_parts_mut(vector.add(1), vector.sub(1).read().value)
    };
    // Almost always there is none, and a sum of all takes a third of the instructions of a search.
    if modules.iter().fold(0, |all, module| all | module.to_free.addr()) != 0 {
        // SAFETY: by this function's contract.
        unsafe { free_modules(abi, modules) };
    }
}

/// # Safety
///
/// The entries are those of the block of the calling context, which uses none of the values any
/// more, as no code of the program runs.
#[cold]
unsafe fn free_modules(abi: &Abi, modules: &mut [Entry]) {
    /// `TLS_DTV_UNALLOCATED`.
    const UNALLOCATED: usize = usize::MAX;
    for module in modules.iter_mut().filter(|module| !module.to_free.is_null()) {
        // SAFETY: the library has allocated the value for this entry alone.
        unsafe { (abi.functions.free)(module.to_free) };
        *module = Entry { value: UNALLOCATED, to_free: ptr::null_mut() };
    }
}
