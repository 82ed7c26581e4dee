//! The error number of the calling context, which moves with it.

use std::ffi::c_int;

/// Leaves `error` in `errno`. Returns the result of a function that fails so.
pub(crate) fn fail(error: c_int) -> c_int {
    set(error);
    -1
}

/// Returns 0, or fails with `error` if it is another number.
pub(crate) fn fail_unless_zero(error: c_int) -> c_int {
    if error == 0 { 0 } else { fail(error) }
}

/// Runs `body`, which leaves `errno` as it was.
pub(crate) fn keep<R>(body: impl FnOnce() -> R) -> R {
    let errno = get();
    let result = body();
    set(errno);
    result
}

/// Returns the error number. Its address is computed anew each time: the context may have changed
/// its kernel thread.
pub(crate) fn get() -> c_int {
    // SAFETY: the address of the calling context's own `errno`.
    unsafe { *libc::__errno_location() }
}

fn set(error: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = error };
}
