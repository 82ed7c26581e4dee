//! Times of the program, as deadlines.

use std::ffi::c_int;
use std::time::Duration;

use daiko_rt::Deadline;

const NS: i64 = 1_000_000_000;

/// Returns the time at `at` on `clock` as a deadline: `EINVAL` if it is no time.
///
/// # Safety
///
/// `at` is null or a time.
pub(crate) unsafe fn deadline(
    clock: libc::clockid_t,
    at: *const libc::timespec,
) -> Result<Deadline, c_int> {
    // SAFETY: by this function's contract.
    let Some(at) = (unsafe { at.as_ref() }) else { return Ok(Deadline::NEVER) };
    if !(0..NS).contains(&at.tv_nsec) {
        return Err(libc::EINVAL);
    }
    let due = ns(at);
    match clock {
        libc::CLOCK_MONOTONIC => Ok(Deadline::from_ns(due.max(0) as u64)),
        libc::CLOCK_REALTIME => {
            let left = due.saturating_sub(now(libc::CLOCK_REALTIME));
            let monotonic = now(libc::CLOCK_MONOTONIC).saturating_add(left);
            Ok(Deadline::from_ns(monotonic.max(0) as u64))
        }
        _ => Err(libc::EINVAL),
    }
}

/// Returns the time that is `left` from now: `EINVAL` if it is no time.
///
/// # Safety
///
/// `left` is null or a time.
pub(crate) unsafe fn after(left: *const libc::timespec) -> Result<Deadline, c_int> {
    // SAFETY: by this function's contract.
    let Some(left) = (unsafe { left.as_ref() }) else { return Ok(Deadline::NEVER) };
    match (u64::try_from(left.tv_sec), u32::try_from(left.tv_nsec)) {
        (Ok(seconds), Ok(ns)) if i64::from(ns) < NS => {
            Ok(Deadline::after(Duration::new(seconds, ns)))
        }
        _ => Err(libc::EINVAL),
    }
}

/// Returns a duration as the kernel takes it, at most the longest.
pub(crate) fn timespec(of: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: of.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: of.subsec_nanos().into(),
    }
}

/// Returns the time of a clock.
pub(crate) fn now(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the live local.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    ns(&time)
}

/// Returns a time in nanoseconds, at most the largest number.
pub(crate) fn ns(time: &libc::timespec) -> i64 {
    time.tv_sec.saturating_mul(NS).saturating_add(time.tv_nsec)
}
