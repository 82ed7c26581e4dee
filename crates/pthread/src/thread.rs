//! Threads: create, exit, join.

use std::ffi::{c_int, c_void};

use daiko_rt::Deadline;
use libc::{pthread_t, timespec};

use crate::home::{self, Start};
use crate::{clock, end, life, real};

/// # Safety
///
/// As for `pthread_create`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { life::start(thread, attributes, start, argument) }
}

/// # Safety
///
/// As for `pthread_exit`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_exit(value: *mut c_void) -> ! {
    // SAFETY: by this function's contract.
    unsafe { life::exit(value) }
}

/// # Safety
///
/// As for `pthread_join`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_join(
    thread: pthread_t,
    value: *mut *mut c_void,
) -> c_int {
    // SAFETY: by this function's contract.
    let native = || unsafe { real::pthread_join(thread, value) };
    // SAFETY: as above.
    unsafe { life::join(thread, value, Some(Deadline::NEVER), native) }
}

/// # Safety
///
/// As for `pthread_tryjoin_np`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_tryjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
) -> c_int {
    // SAFETY: by this function's contract.
    let native = || unsafe { real::pthread_tryjoin_np(thread, value) };
    // SAFETY: as above.
    unsafe { life::join(thread, value, None, native) }
}

/// # Safety
///
/// As for `pthread_timedjoin_np`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_timedjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
    until: *const timespec,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { daiko_pthread_clockjoin_np(thread, value, libc::CLOCK_REALTIME, until) }
}

/// # Safety
///
/// As for `pthread_clockjoin_np`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_clockjoin_np(
    thread: pthread_t,
    value: *mut *mut c_void,
    clock: libc::clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: by this function's contract.
    let native = || unsafe { real::pthread_clockjoin_np(thread, value, clock, until) };
    // SAFETY: as above.
    match unsafe { clock::deadline(clock, until) } {
        // SAFETY: as above.
        Ok(deadline) => unsafe { life::join(thread, value, Some(deadline), native) },
        Err(error) => error,
    }
}

/// # Safety
///
/// As for `pthread_key_create`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn daiko_pthread_key_create(
    key: *mut libc::pthread_key_t,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { end::create_key(key, destructor) }
}

/// # Safety
///
/// As for `pthread_detach`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_detach(thread: pthread_t) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { life::detach(thread) }
}

/// # Safety
///
/// As for `pthread_getattr_np`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_pthread_getattr_np(
    thread: pthread_t,
    attributes: *mut libc::pthread_attr_t,
) -> c_int {
    // SAFETY: by this function's contract.
    let result = home::errand(|| unsafe { libc::pthread_getattr_np(thread, attributes) });
    if result == 0 && life::is_detached(thread) == Some(true) {
        // SAFETY: the attributes were just written.
        unsafe { libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED) };
    }
    result
}

/// # Safety
///
/// As for `exit`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_exit(status: c_int) -> ! {
    // Handlers of the program run at home.
    let _ = home::leave_for_errand();
    // SAFETY: by this function's contract.
    unsafe { real::exit(status) }
}
