//! The memory of other processes.

use std::io;

/// Reads the memory of a process, which goes on meanwhile, from `address` on; `process` may be the
/// caller's own. Returns the number of bytes read, which is less than asked for where memory ends
/// that can be read.
///
/// # Errors
///
/// The error of `process_vm_readv`(2): `ESRCH` if there is no such process, `EPERM` if the caller
/// may not trace it, `EFAULT` if not even the first byte can be read.
///
/// # Examples
///
/// ```
/// use daiko_sys::process::read_memory;
///
/// let (secret, mut seen) = (*b"four", [0; 4]);
/// let here = secret.as_ptr().addr() as u64;
/// assert_eq!(read_memory(std::process::id(), here, &mut seen)?, 4);
/// assert_eq!(seen, secret);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_memory(process: u32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let start = std::ptr::without_provenance_mut(address as usize);
    let remote = libc::iovec { iov_base: start, iov_len: into.len() };
    let process = libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: one range of each kind; the local one is a live buffer that nothing else uses. The
    // kernel checks the remote one.
    let read =
        unsafe { libc::process_vm_readv(process, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}

/// Most ranges of one call, `IOV_MAX`.
const MOST_RANGES: usize = 1024;

/// Reads several ranges of a process's memory, each from its first address with its number of
/// bytes, into `into`, one after the other. Returns the number of ranges before the first one that
/// cannot be read.
///
/// # Errors
///
/// As for [`read_memory`], but for `EFAULT`.
///
/// # Panics
///
/// If `into` is shorter than all ranges.
pub fn read_memory_of(
    process: u32,
    ranges: &[(u64, usize)],
    mut into: &mut [u8],
) -> io::Result<usize> {
    let id = libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut done = 0;
    for some in ranges.chunks(MOST_RANGES) {
        let all = some.iter().map(|(_, len)| len).sum();
        let (now, later) = into.split_at_mut(all);
        into = later;
        let local = libc::iovec { iov_base: now.as_mut_ptr().cast(), iov_len: all };
        let remote: Vec<_> = some
            .iter()
            .map(|&(start, iov_len)| {
                let iov_base = std::ptr::without_provenance_mut(start as usize);
                libc::iovec { iov_base, iov_len }
            })
            .collect();
        let count = remote.len() as libc::c_ulong;
        // SAFETY: the local range is a live buffer that nothing else uses; there are as many
        // remote ranges as told. The kernel checks them.
        let read =
            unsafe { libc::process_vm_readv(id, &raw const local, 1, remote.as_ptr(), count, 0) };
        let mut read = match usize::try_from(read) {
            Ok(read) => read,
            Err(_) => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EFAULT) => return Ok(done),
                error => return Err(error),
            },
        };
        for &(_, len) in some {
            match read.checked_sub(len) {
                Some(rest) => read = rest,
                None => return Ok(done),
            }
            done += 1;
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_mapped_is_an_error() {
        let error = read_memory(std::process::id(), 8, &mut [0; 8]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn ranges_are_read_up_to_the_first_that_is_not_mapped() {
        let numbers: Vec<u64> = (0..3000).collect();
        let mut ranges: Vec<_> =
            numbers.iter().map(|number| (std::ptr::from_ref(number).addr() as u64, 8)).collect();
        let mut into = vec![0; 8 * ranges.len()];
        let here = std::process::id();
        assert_eq!(read_memory_of(here, &ranges, &mut into).unwrap(), 3000);
        let read: Vec<u64> =
            into.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
        assert_eq!(read, numbers);
        for unmapped in [0, 1, 1024, 2999] {
            let before = std::mem::replace(&mut ranges[unmapped], (8, 8));
            assert_eq!(read_memory_of(here, &ranges, &mut into).unwrap(), unmapped);
            ranges[unmapped] = before;
        }
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        let error = read_memory(i32::MAX as u32, 4096, &mut [0; 8]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
        let error = read_memory(u32::MAX, 4096, &mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
