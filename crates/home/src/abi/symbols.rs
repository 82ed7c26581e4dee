//! Private symbols of the C library.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::{mem, ptr};

use super::unsupported::Unsupported;

/// Looks a private symbol up.
///
/// # Errors
///
/// The library has none of this name.
pub(crate) fn find(name: &'static CStr) -> Result<NonNull<c_void>, Unsupported> {
    let version: *const c_char = c"GLIBC_PRIVATE".as_ptr();
    // SAFETY: both are strings that end with zero.
    let address = unsafe { libc::dlvsym(libc::RTLD_DEFAULT, name.as_ptr(), version) };
    NonNull::new(address).ok_or(Unsupported::Symbol(name))
}

/// Looks up a public symbol, which an older library may lack.
pub(crate) fn find_public(name: &'static CStr) -> Option<NonNull<c_void>> {
    // SAFETY: a string that ends with zero.
    NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

/// Returns the `free` that belongs to the loader's `malloc`: a program may have its own, and a
/// library that is loaded with `RTLD_DEEPBIND` sees another.
///
/// # Errors
///
/// The program has none.
pub(crate) fn free_of_loader() -> Result<unsafe extern "C" fn(*mut c_void), Unsupported> {
    // SAFETY: no name stands for the program, which stays loaded; the name is a string that ends
    // with zero.
    let address = unsafe {
        let program = libc::dlopen(ptr::null(), libc::RTLD_LAZY);
        libc::dlsym(program, c"free".as_ptr())
    };
    let address = NonNull::new(address).ok_or(Unsupported::Symbol(c"free"))?;
    // SAFETY: `free` has this type.
    Ok(unsafe { mem::transmute::<NonNull<c_void>, unsafe extern "C" fn(*mut c_void)>(address) })
}

/// Returns the offset in bytes of a field, from the description that the library has for
/// debuggers: the bits of an element, the number of elements, the offset.
///
/// # Errors
///
/// The library has no such description.
pub(crate) fn offset(name: &'static CStr) -> Result<usize, Unsupported> {
    // SAFETY: such a description is three 32-bit words.
    let [_bits, _count, offset] = unsafe { find(name)?.cast::<[u32; 3]>().read() };
    Ok(offset as usize)
}

/// Returns the number in a 32-bit constant.
///
/// # Errors
///
/// The library has no such constant.
pub(crate) fn constant(name: &'static CStr) -> Result<usize, Unsupported> {
    // SAFETY: such a constant is one 32-bit word.
    Ok(unsafe { find(name)?.cast::<u32>().read() } as usize)
}

/// Returns a private function.
///
/// # Errors
///
/// The library has none of this name.
///
/// # Safety
///
/// `F` is the type of a function pointer, and that of the function.
pub(crate) unsafe fn function<F: Copy>(name: &'static CStr) -> Result<F, Unsupported> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let address = find(name)?;
    // SAFETY: a function pointer of that type, by this function's contract.
    Ok(unsafe { mem::transmute_copy::<NonNull<c_void>, F>(&address) })
}
