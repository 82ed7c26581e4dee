//! Absolute times of the monotonic clock.

use daiko::time::Deadline;
use libc::timespec;

use crate::pointer::{Code, Passed};

const NS_OF_SECOND: u64 = 1_000_000_000;

/// Returns the deadline that the caller names.
///
/// # Errors
///
/// `EINVAL` if it names none, or its nanoseconds are not those of a second.
pub(crate) fn named(until: &Passed<timespec>) -> Result<Deadline, Code> {
    let until = until.get()?;
    let ns = u64::try_from(until.tv_nsec).map_err(|_| libc::EINVAL)?;
    if ns >= NS_OF_SECOND {
        return Err(libc::EINVAL);
    }
    // A time before the clock's begin has passed.
    let seconds = u64::try_from(until.tv_sec).unwrap_or(0);
    Ok(Deadline::from_ns(seconds.saturating_mul(NS_OF_SECOND).saturating_add(ns)))
}

/// Returns the deadline that the caller names, or one that never comes.
///
/// # Errors
///
/// `EINVAL` if the nanoseconds are not those of a second.
pub(crate) fn named_or_never(until: &Passed<timespec>) -> Result<Deadline, Code> {
    if until.is_null() { Ok(Deadline::NEVER) } else { named(until) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(tv_sec: i64, tv_nsec: i64) -> Result<Option<u64>, Code> {
        let time = timespec { tv_sec, tv_nsec };
        named(&Passed::of(&time)).map(Deadline::ns)
    }

    #[test]
    fn a_time_is_checked_and_never_wraps() {
        assert_eq!(ns(2, 5), Ok(Some(2_000_000_005)));
        assert_eq!(ns(-1, 999_999_999), Ok(Some(999_999_999)));
        assert_eq!(ns(i64::MAX, 0), Ok(None));
        assert_eq!(ns(0, -1), Err(libc::EINVAL));
        assert_eq!(ns(0, 1_000_000_000), Err(libc::EINVAL));
    }
}
