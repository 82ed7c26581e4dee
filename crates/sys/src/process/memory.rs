//! The memory of other processes.

use std::io;

use daiko_core::inspect::{Memory, Span};

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

/// Writes a word into the memory of a process, which goes on meanwhile.
///
/// # Errors
///
/// As for [`read_memory`]; `EFAULT` also if the memory is read-only.
///
/// # Safety
///
/// The process expects other values of the word at any time, at an address that is a multiple of 8.
pub unsafe fn write_word(process: u32, address: u64, word: u64) -> io::Result<()> {
    let bytes = word.to_ne_bytes();
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let start = std::ptr::without_provenance_mut(address as usize);
    let remote = libc::iovec { iov_base: start, iov_len: bytes.len() };
    let process = libc::pid_t::try_from(process).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: one range of each kind; the local one is only read. The effect on the
    // process is the caller's promise.
    let written =
        unsafe { libc::process_vm_writev(process, &raw const local, 1, &raw const remote, 1, 0) };
    match written {
        8 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The memory of a process, as readers of runtimes take it: see [`read_memory`].
#[derive(Clone, Copy, Debug)]
pub struct ProcessMemory {
    /// The id of the process.
    pub process: u32,
}

impl Memory for ProcessMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        read_memory(self.process, address, into).is_ok_and(|read| read == into.len())
    }

    fn read_each(&self, ranges: &[Span], mut into: &mut [u8]) -> usize {
        let mut done = 0;
        for some in ranges.chunks(MOST_RANGES) {
            let (now, later) = into.split_at_mut(some.iter().map(|span| span.len).sum());
            into = later;
            let read = read_ranges(self.process, some, now);
            done += read;
            if read < some.len() {
                break;
            }
        }
        done
    }
}

/// Most ranges of one call, `IOV_MAX`.
const MOST_RANGES: usize = 1024;

/// Reads as [`Memory::read_each`] does, by one call.
fn read_ranges(process: u32, ranges: &[Span], into: &mut [u8]) -> usize {
    let Ok(process) = libc::pid_t::try_from(process) else { return 0 };
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = |span: &Span| libc::iovec {
        iov_base: std::ptr::without_provenance_mut(span.start as usize),
        iov_len: span.len,
    };
    let remote: Vec<_> = ranges.iter().map(remote).collect();
    let count = remote.len() as libc::c_ulong;
    // SAFETY: the local range is a live buffer that nothing else uses; there are as many remote
    // ranges as told. The kernel checks them.
    let read =
        unsafe { libc::process_vm_readv(process, &raw const local, 1, remote.as_ptr(), count, 0) };
    let mut left = usize::try_from(read).unwrap_or(0);
    let is_whole = |span: &&Span| {
        let rest = left.checked_sub(span.len);
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    ranges.iter().take_while(is_whole).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::LinuxPart;

    #[test]
    fn memory_that_is_not_mapped_is_an_error() {
        if LinuxPart::ProcessMemory.is_lacking() {
            return;
        }
        let error = read_memory(std::process::id(), 8, &mut [0; 8]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn ranges_are_read_up_to_the_first_that_is_not_mapped() {
        if LinuxPart::ProcessMemory.is_lacking() {
            return;
        }
        let numbers: Vec<u64> = (0..3000).collect();
        let span = |number: &u64| Span { start: std::ptr::from_ref(number).addr() as u64, len: 8 };
        let mut ranges: Vec<_> = numbers.iter().map(span).collect();
        let mut into = vec![0; 8 * ranges.len()];
        let here = ProcessMemory { process: std::process::id() };
        assert_eq!(here.read_each(&ranges, &mut into), 3000);
        let read: Vec<u64> =
            into.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
        assert_eq!(read, numbers);
        for unmapped in [0, 1, 1024, 2999] {
            let before = std::mem::replace(&mut ranges[unmapped], Span { start: 8, len: 8 });
            assert_eq!(here.read_each(&ranges, &mut into), unmapped);
            ranges[unmapped] = before;
        }
    }

    #[test]
    fn a_word_of_another_mapping_is_written() {
        if LinuxPart::ProcessMemory.is_lacking() {
            return;
        }
        let mut word = 1u64;
        let (process, address) = (std::process::id(), (&raw mut word).expose_provenance() as u64);
        // SAFETY: no other code relies on the word.
        unsafe { write_word(process, address, 2) }.unwrap();
        // SAFETY: a live local.
        assert_eq!(unsafe { (&raw const word).read_volatile() }, 2);
        static READ_ONLY: u64 = 3;
        let address = (&raw const READ_ONLY).addr() as u64;
        // SAFETY: the kernel refuses it.
        let refused = unsafe { write_word(process, address, 4) };
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EFAULT));
        assert_eq!(std::hint::black_box(READ_ONLY), 3);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error() {
        if LinuxPart::ProcessMemory.is_lacking() {
            return;
        }
        let error = read_memory(i32::MAX as u32, 4096, &mut [0; 8]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
        let error = read_memory(u32::MAX, 4096, &mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
