//! Safe calls of the C and C++ files, and shared libraries that are compiled when a test runs.

use std::ffi::{c_char, c_int, c_long};

/// A function that a C function calls in its middle.
pub type Suspend = extern "C" fn();

/// Lets other fibers run.
pub extern "C" fn suspend() {
    daiko::yield_now();
    daiko::yield_now();
}

unsafe extern "C" {
    fn values_of_thread() -> *mut c_long;
    fn values_zeros_of_thread() -> *mut c_char;
    fn values_of_key() -> *mut c_long;
    fn values_sum_destroyed() -> c_long;
    fn values_errno_over(value: c_int, suspend: Suspend) -> c_int;
}

/// Returns the thread's own counter: 40 at first.
pub fn counter() -> *mut c_long {
    // SAFETY: returns an address.
    unsafe { values_of_thread() }
}

/// Returns the thread's own 3,000 bytes: zeros at first.
pub fn zeros() -> *mut c_char {
    // SAFETY: returns an address.
    unsafe { values_zeros_of_thread() }
}

/// Returns the value of a key: 0 at first. It is destroyed with the thread.
pub fn of_key() -> *mut c_long {
    // SAFETY: returns an address.
    unsafe { values_of_key() }
}

/// Returns the sum of all values of that key in threads that have ended.
pub fn sum_destroyed() -> c_long {
    // SAFETY: reads an atomic.
    unsafe { values_sum_destroyed() }
}

/// Sets `errno`, suspends in the C function, and returns `errno`.
pub fn errno_over(value: c_int) -> c_int {
    // SAFETY: `suspend` may be called from C, as it does not unwind.
    unsafe { values_errno_over(value, suspend) }
}

/// The C++ file, if there was a compiler for it.
#[cfg(not(no_cxx))]
pub mod objects {
    use super::{Suspend, c_long, suspend};

    unsafe extern "C" {
        fn objects_value() -> *mut c_long;
        fn objects_destroyed() -> c_long;
        fn objects_throw(value: c_long, suspend: Suspend) -> c_long;
    }

    /// Returns a field of the thread's own object: 5 at first. The object is destroyed with the
    /// thread.
    pub fn value() -> *mut c_long {
        // SAFETY: returns an address.
        unsafe { objects_value() }
    }

    /// Returns the sum of that field of all objects whose threads have ended.
    pub fn sum_destroyed() -> c_long {
        // SAFETY: reads an atomic.
        unsafe { objects_destroyed() }
    }

    /// Throws and handles exceptions with suspensions in between; returns `value`.
    pub fn throw(value: c_long) -> c_long {
        // SAFETY: `suspend` may be called from C++, as it does not unwind.
        unsafe { objects_throw(value, suspend) }
    }
}
