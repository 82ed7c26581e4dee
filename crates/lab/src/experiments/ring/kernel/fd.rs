//! Waiting in `read`.

use std::os::fd::{AsRawFd, OwnedFd};

use crate::kit::Skip;

/// Writes `bytes` in one call.
pub(super) fn write<const N: usize>(fd: &OwnedFd, bytes: [u8; N]) {
    retry(|| {
        // SAFETY: `bytes` is valid for reads of its length; `fd` is open.
        unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), N) }
    });
}

/// Reads `N` bytes in one call, waiting until they are there.
pub(super) fn read<const N: usize>(fd: &OwnedFd) {
    let mut bytes = [0u8; N];
    retry(|| {
        // SAFETY: `bytes` is valid for writes of its length; `fd` is open.
        unsafe { libc::read(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), N) }
    });
}

/// Calls again while a signal handler has interrupted the call; the messages
/// are far smaller than what the kernel reads or writes in one piece.
fn retry(mut call: impl FnMut() -> isize) {
    while call() < 0 {}
}

/// Whether `descriptors` can be open in this process.
pub(super) fn supports(descriptors: usize) -> Result<(), Skip> {
    let needed = descriptors as u64 + OTHERS;
    match limit() {
        Some(limit) if limit.rlim_max < needed => Err(Skip::new(format!(
            "needs {needed} descriptors, {} are allowed: raise `ulimit -Hn`",
            limit.rlim_max
        ))),
        _ => Ok(()),
    }
}

/// Raises the soft limit so that `descriptors` can be open, as far as the hard
/// limit permits; whoever opens them sees what is missing.
pub(super) fn allow(descriptors: usize) {
    let needed = descriptors as u64 + OTHERS;
    if let Some(mut limit) = limit().filter(|limit| limit.rlim_cur < needed) {
        limit.rlim_cur = needed.min(limit.rlim_max);
        // SAFETY: `limit` is valid for reads.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    }
}

/// Descriptors that the process has open for other reasons, at most.
const OTHERS: u64 = 64;

fn limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writes.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    (result == 0).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_descriptors_than_allowed_are_refused_with_the_remedy() {
        let skip = supports(usize::MAX / 2).unwrap_err();
        assert!(skip.reason.contains("ulimit -Hn"), "{skip}");
    }
}
