//! Sleeping until a time.

use std::ptr;
use std::time::Duration;

/// Sleeps until `due` on the monotonic clock, in nanoseconds, plus at most the thread's timer
/// slack.
pub(crate) fn sleep_until(due: u64) {
    let due = timespec(Duration::from_nanos(due));
    // SAFETY: the time is a live local; an absolute sleep reports no remaining time.
    let sleep = || unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &due, ptr::null_mut())
    };
    while sleep() == libc::EINTR {}
}

/// Converts a time on a clock, given as the duration `since` its origin.
pub(crate) fn timespec(since: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: since.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(since.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use daiko_sys::clock::monotonic_ns;

    use super::*;

    #[test]
    fn a_sleep_ends_when_it_is_due_and_not_before() {
        let due = monotonic_ns() + 1_000_000;
        sleep_until(due);
        assert!(monotonic_ns() >= due);
        sleep_until(due);
    }
}
