//! Sleeps and yields.

use std::ffi::{c_int, c_uint};
use std::time::Duration;

use crate::home::{self, errand};
use crate::interrupt::Pending;
use crate::parking::{self, Outcome};
use crate::{cancel, clock, errno, real};

/// # Safety
///
/// As for `sched_yield`.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn daiko_sched_yield() -> c_int {
    home::yield_now();
    0
}

/// The former name.
#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn daiko_pthread_yield() -> c_int {
    daiko_sched_yield()
}

/// # Safety
///
/// As for `clock_nanosleep`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    left: *mut libc::timespec,
) -> c_int {
    let known = clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_MONOTONIC;
    if !known || home::of_lent().is_none() {
        // SAFETY: by this function's contract.
        return errand(|| unsafe { real::clock_nanosleep(clock, flags, time, left) });
    }
    let absolute = flags & libc::TIMER_ABSTIME != 0;
    // SAFETY: as above.
    let end = unsafe { if absolute { clock::deadline(clock, time) } else { clock::after(time) } };
    let deadline = match end {
        Ok(deadline) => deadline,
        Err(error) => return error,
    };
    loop {
        cancel::test();
        match parking::sleep_until(deadline) {
            Outcome::Interrupted(Pending { handled: true, .. }) => break,
            Outcome::Interrupted(_) => {}
            Outcome::Over | Outcome::TimedOut => return 0,
        }
    }
    if !absolute && !left.is_null() {
        let now = clock::now(libc::CLOCK_MONOTONIC) as u64;
        let rest = Duration::from_nanos(deadline.ns().unwrap_or(0).saturating_sub(now));
        // SAFETY: as above.
        unsafe { left.write(clock::timespec(rest)) };
    }
    libc::EINTR
}

/// # Safety
///
/// As for `nanosleep`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_nanosleep(
    time: *const libc::timespec,
    left: *mut libc::timespec,
) -> c_int {
    // SAFETY: by this function's contract.
    errno::fail_unless_zero(unsafe { daiko_clock_nanosleep(libc::CLOCK_REALTIME, 0, time, left) })
}

/// # Safety
///
/// As for `usleep`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_usleep(us: c_uint) -> c_int {
    let time = libc::timespec {
        tv_sec: libc::time_t::from(us / 1_000_000),
        tv_nsec: i64::from(us % 1_000_000) * 1000,
    };
    // SAFETY: a live time.
    unsafe { daiko_nanosleep(&raw const time, std::ptr::null_mut()) }
}

/// # Safety
///
/// As for `sleep`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn daiko_sleep(seconds: c_uint) -> c_uint {
    let mut time = libc::timespec { tv_sec: libc::time_t::from(seconds), tv_nsec: 0 };
    // SAFETY: live times.
    match unsafe { daiko_nanosleep(&raw const time, &raw mut time) } {
        0 => 0,
        _ => time.tv_sec as c_uint,
    }
}
