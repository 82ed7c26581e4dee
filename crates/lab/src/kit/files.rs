//! Limit on a process's open files, and files without a name.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use daiko_sys::page_cache;

use super::children::again;
use super::failure::{Failure, Skip};

/// Descriptors that a process needs for other purposes.
const RESERVED: u64 = 100;

/// Tests whether this process may open this many files without privileges.
///
/// # Errors
/// Fails if too few files are allowed; the reason names the remedy.
pub(crate) fn check_allowed(files: usize) -> Result<(), Skip> {
    let (needed, allowed) = (files as u64 + RESERVED, limit().rlim_max);
    match needed <= allowed {
        true => Ok(()),
        false => Err(Skip::new(format!(
            "needs {needed} descriptors, {allowed} are allowed: raise `ulimit -Hn`"
        ))),
    }
}

/// Tests whether the temporary folder is on a device.
///
/// # Errors
/// Fails if it is in memory; the reason names the remedy.
pub(crate) fn check_device() -> Result<(), Skip> {
    let folder = std::env::temp_dir();
    let is_memory = File::open(&folder).is_ok_and(|folder| page_cache::is_memory(folder.as_fd()));
    match is_memory {
        false => Ok(()),
        true => Err(Skip::new(format!(
            "{} is in memory: set TMPDIR to a folder on a disk",
            folder.display()
        ))),
    }
}

/// Raises the limit of this process, and of its later children, to this many files.
///
/// # Errors
/// Fails if that is not allowed; the failure names the remedy.
pub(crate) fn allow(files: usize) -> Result<(), Failure> {
    let needed = files as u64 + RESERVED;
    let mut limit = limit();
    if needed <= limit.rlim_cur {
        return Ok(());
    }
    limit.rlim_cur = needed;
    // Only a privileged process can go beyond the hard limit.
    limit.rlim_max = limit.rlim_max.max(needed);
    set(&limit).map_err(|_| {
        Failure::Limit(format!(
            "needs {needed} open files; {} are allowed: raise the limit by `ulimit -Hn`",
            self::limit().rlim_max
        ))
    })
}

/// Opens an event counter. Its reads wait until it is not 0.
///
/// # Errors
/// Returns the error of `eventfd`.
pub(crate) fn event_counter() -> io::Result<File> {
    // SAFETY: always safe to call.
    let fd = again(|| unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
    // SAFETY: `fd` is open and owned by nothing else.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn limit() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the result is written to a live local.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit
}

fn set(limit: &libc::rlimit) -> io::Result<()> {
    // SAFETY: the limit is a live local.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sufficient_limit_is_left_alone() {
        let before = limit();
        assert_eq!(allow(1), Ok(()));
        assert_eq!((limit().rlim_cur, limit().rlim_max), (before.rlim_cur, before.rlim_max));
    }

    #[test]
    fn more_descriptors_than_allowed_are_refused_with_the_remedy() {
        let skip = check_allowed(usize::MAX / 2).unwrap_err();
        assert!(skip.reason.contains("ulimit -Hn"), "{skip}");
    }

    #[test]
    fn an_impossible_limit_is_refused_with_the_remedy() {
        // More than the kernel allows a privileged process (fs.nr_open).
        let failure = allow(usize::MAX / 2).unwrap_err().to_string();
        assert!(failure.contains("are allowed: raise the limit"), "{failure}");
    }
}
