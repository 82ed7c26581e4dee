//! CPU time of a child started by `std`.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

/// Waits for the end of `child`. Returns its status and the CPU time of the child and of all its
/// own children that it has waited for.
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
/// The error of `wait4` for a child that was waited for elsewhere.
pub fn wait_with_usage(mut child: Child) -> io::Result<(ExitStatus, Duration)> {
    // `Child::wait` does the same: a child that reads its input would never end.
    drop(child.stdin.take());
    let pid = child.id().cast_signed();
    loop {
        let mut status = 0;
        // SAFETY: the structure consists of plain numbers, for which zero is valid.
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
    fn the_usage_of_grandchildren_counts_as_well() {
        // A shell that only waits for another shell, which counts.
        let count = "sh -c 'n=0; while [ $n -lt 200000 ]; do n=$((n + 1)); done'; exit 3";
        let child = Command::new("sh").args(["-c", count]).spawn().unwrap();
        let (status, used) = wait_with_usage(child).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(used >= Duration::from_millis(5), "{used:?}");
    }
}
