//! Threads of C11. Their types are those of POSIX threads: only results differ.

use std::ffi::{c_int, c_void};
use std::ptr;

use libc::{pthread_cond_t, pthread_mutex_t, pthread_once_t, pthread_t, timespec};

use crate::home::Start;
use crate::object::cond::{
    daiko_pthread_cond_broadcast, daiko_pthread_cond_destroy, daiko_pthread_cond_signal,
    daiko_pthread_cond_timedwait, daiko_pthread_cond_wait,
};
use crate::object::mutex::{
    daiko_pthread_mutex_lock, daiko_pthread_mutex_timedlock, daiko_pthread_mutex_trylock,
    daiko_pthread_mutex_unlock,
};
use crate::object::once::daiko_pthread_once;
use crate::object::time::{daiko_clock_nanosleep, daiko_sched_yield};
use crate::thread::{
    daiko_pthread_create, daiko_pthread_detach, daiko_pthread_exit, daiko_pthread_join,
};

/// Returns the result of a C11 function for an error number, as the C library does.
fn result(error: c_int) -> c_int {
    const SUCCESS: c_int = 0;
    const BUSY: c_int = 1;
    const ERROR: c_int = 2;
    const NO_MEMORY: c_int = 3;
    const TIMED_OUT: c_int = 4;
    match error {
        0 => SUCCESS,
        libc::ENOMEM => NO_MEMORY,
        libc::ETIMEDOUT => TIMED_OUT,
        libc::EBUSY => BUSY,
        _ => ERROR,
    }
}

/// Declares functions of C11 with the function of POSIX threads that each is.
macro_rules! results_of {
    ($($door:ident = $of:ident($($argument:ident: $type:ty),*);)*) => {$(
        /// # Safety
        ///
        /// As for the function of this name in the C library.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $door($($argument: $type),*) -> c_int {
            // SAFETY: by this function's contract.
            result(unsafe { $of($($argument),*) })
        }
    )*};
}

results_of! {
    daiko_mtx_lock = daiko_pthread_mutex_lock(mutex: *mut pthread_mutex_t);
    daiko_mtx_trylock = daiko_pthread_mutex_trylock(mutex: *mut pthread_mutex_t);
    daiko_mtx_timedlock =
        daiko_pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, until: *const timespec);
    daiko_mtx_unlock = daiko_pthread_mutex_unlock(mutex: *mut pthread_mutex_t);
    daiko_cnd_wait =
        daiko_pthread_cond_wait(condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t);
    daiko_cnd_timedwait = daiko_pthread_cond_timedwait(
        condition: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, until: *const timespec
    );
    daiko_cnd_signal = daiko_pthread_cond_signal(condition: *mut pthread_cond_t);
    daiko_cnd_broadcast = daiko_pthread_cond_broadcast(condition: *mut pthread_cond_t);
    daiko_thrd_detach = daiko_pthread_detach(thread: pthread_t);
}

/// # Safety
///
/// As for `cnd_destroy`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_cnd_destroy(condition: *mut pthread_cond_t) {
    // SAFETY: by this function's contract.
    unsafe { daiko_pthread_cond_destroy(condition) };
}

/// # Safety
///
/// As for `call_once`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_call_once(
    once: *mut pthread_once_t,
    run: extern "C-unwind" fn(),
) {
    // SAFETY: by this function's contract.
    unsafe { daiko_pthread_once(once, run) };
}

/// # Safety
///
/// As for `thrd_create`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_thrd_create(
    thread: *mut pthread_t,
    start: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: by this function's contract. Of the register with the result, `thrd_join` uses the
    // half that is an `int`.
    unsafe {
        let start =
            std::mem::transmute::<unsafe extern "C-unwind" fn(*mut c_void) -> c_int, Start>(start);
        result(daiko_pthread_create(thread, ptr::null(), start, argument))
    }
}

/// # Safety
///
/// As for `thrd_join`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_thrd_join(
    thread: pthread_t,
    value: *mut c_int,
) -> c_int {
    let mut found = ptr::null_mut();
    // SAFETY: by this function's contract.
    unsafe {
        let error = daiko_pthread_join(thread, &raw mut found);
        if error == 0 && !value.is_null() {
            value.write(found.addr() as c_int);
        }
        result(error)
    }
}

/// # Safety
///
/// As for `thrd_exit`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_thrd_exit(value: c_int) -> ! {
    // SAFETY: by this function's contract.
    unsafe { daiko_pthread_exit(ptr::without_provenance_mut(value as usize)) }
}

/// # Safety
///
/// As for `thrd_yield`.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn daiko_thrd_yield() {
    daiko_sched_yield();
}

/// # Safety
///
/// As for `thrd_sleep`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_thrd_sleep(
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    // SAFETY: by this function's contract.
    match unsafe { daiko_clock_nanosleep(libc::CLOCK_REALTIME, 0, time, left) } {
        0 => 0,
        libc::EINTR => -1,
        _ => -2,
    }
}
