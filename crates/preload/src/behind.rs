//! The functions behind this library: those of the C library, or of another preloaded one.

use std::ffi::{CStr, c_int, c_void};

/// Returns the function of this name that the program would call without this library.
pub(crate) fn next(name: &CStr) -> *mut c_void {
    // SAFETY: a string that ends with zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() { missing as *mut c_void } else { found }
}

/// Stands for a function that the C library lacks.
extern "C" fn missing() -> c_int {
    libc::ENOSYS
}
