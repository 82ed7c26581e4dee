//! What a child of `std` has used.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// Waits for the end of `child`: how it ended, and the CPU time that it and its own children, as far as it has waited for them,
/// have used.
///
/// # Examples
///
/// ```
/// use daiko_sys::process::wait_with_usage;
///
/// let child = std::process::Command::new("true").spawn()?;
/// let (status, _cpu_time) = wait_with_usage(child)?;
/// assert!(status.success());
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// What `wait4` reports, for a child that somebody else has waited for.
pub fn wait_with_usage(mut child: Child) -> io::Result<(ExitStatus, Duration)> {
    // As `Child::wait` does: who reads from it would wait for ever.
    drop(child.stdin.take());
    let pid = child.id().cast_signed();
    loop {
        let mut status = 0;
        // SAFETY: the structure is plain numbers, for which zeros are values.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both results go to live locals.
        if unsafe { libc::wait4(pid, &mut status, 0, &mut usage) } == pid {
            let used = time(usage.ru_utime) + time(usage.ru_stime);
            return Ok((ExitStatus::from_raw(status), used));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn time(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec.unsigned_abs())
        + Duration::from_micros(time.tv_usec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_a_childs_own_child_used_counts_as_well() {
        // A shell that does nothing but wait for one that counts.
        let count = "sh -c 'n=0; while [ $n -lt 200000 ]; do n=$((n + 1)); done'; exit 3";
        let child = Command::new("sh").args(["-c", count]).spawn().unwrap();
        let (status, used) = wait_with_usage(child).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(used >= Duration::from_millis(5), "{used:?}");
    }
}
