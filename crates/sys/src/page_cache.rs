//! Reads of files that take bytes from the page cache, and never wait for a device.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The outcome of a read that does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum CachedRead {
    /// Number of bytes read. Fewer than there is room for if only these are in the cache; 0 at the
    /// end of the file.
    Read(usize),
    /// The first byte is not in the cache.
    Waits,
    /// The file system cannot tell.
    Unsupported,
}

/// Reads bytes that are in the page cache, from `offset` on, or from the position of the open file,
/// which then moves (preadv2 with RWF_NOWAIT).
///
/// # Errors
///
/// The error of `preadv2`, unless it says that the call would wait, or that the file system or the
/// kernel cannot tell.
pub fn read(fd: BorrowedFd<'_>, bytes: &mut [u8], offset: Option<u64>) -> io::Result<CachedRead> {
    let part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // An offset of -1 is the position of the open file.
    let Ok(offset) = offset.map_or(Ok(-1), libc::off64_t::try_from) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    // SAFETY: the part is live memory that is borrowed for writing until the call returns.
    let read = unsafe { libc::preadv2(fd.as_raw_fd(), &part, 1, offset, libc::RWF_NOWAIT) };
    if let Ok(read) = usize::try_from(read) {
        return Ok(CachedRead::Read(read));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN) => Ok(CachedRead::Waits),
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL | libc::ESPIPE) => {
            Ok(CachedRead::Unsupported)
        }
        _ => Err(error),
    }
}

/// Returns true if the file lies in a file system that has no device, such as tmpfs. False if the
/// kernel does not tell. On a file system of a network, the call asks the server.
pub fn is_memory(fd: BorrowedFd<'_>) -> bool {
    let mut found = MaybeUninit::<libc::statfs64>::uninit();
    // SAFETY: the result goes to a live local of its type.
    if unsafe { libc::fstatfs64(fd.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call has succeeded and so filled it.
    let kind = unsafe { found.assume_init() }.f_type;
    const RAMFS: libc::__fsword_t = 0x8584_58f6;
    matches!(kind, libc::TMPFS_MAGIC | libc::HUGETLBFS_MAGIC | RAMFS)
}

/// Returns true if calls on the file may name an offset: it is a regular file or a disk. False if
/// the kernel does not tell. No server of a file system is asked.
pub fn has_offsets(fd: BorrowedFd<'_>) -> bool {
    let mut found = MaybeUninit::<libc::statx>::uninit();
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the name is a string, and the result goes to a live local of its type.
    let told = unsafe {
        libc::statx(fd.as_raw_fd(), c"".as_ptr(), flags, libc::STATX_TYPE, found.as_mut_ptr())
    };
    if told != 0 {
        return false;
    }
    // SAFETY: the call has succeeded and so filled it.
    let mode = libc::mode_t::from(unsafe { found.assume_init() }.stx_mode);
    matches!(mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK)
}

/// Returns true if the file is open for direct reads and writes (`O_DIRECT`), which wait for the
/// device even if they are told not to.
pub fn is_direct(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: this command takes plain integers.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    flags >= 0 && flags & libc::O_DIRECT != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::LinuxPart;
    use std::fs::File;
    use std::io::{Seek, Write};
    use std::os::fd::AsFd;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    /// A file in `folder` that has no name.
    fn file(folder: &Path) -> File {
        File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder).unwrap()
    }

    #[test]
    fn cached_bytes_are_read_with_and_without_an_offset() {
        let mut file = file(&std::env::temp_dir());
        file.write_all(b"in the cache").unwrap();
        let mut bytes = [0; 5];
        match read(file.as_fd(), &mut bytes, Some(7)).unwrap() {
            CachedRead::Read(5) => assert_eq!(&bytes, b"cache"),
            other => return println!("skipped: the temporary folder's file system: {other:?}"),
        }
        file.rewind().unwrap();
        assert_eq!(read(file.as_fd(), &mut bytes, None).unwrap(), CachedRead::Read(5));
        assert_eq!((&bytes, file.stream_position().unwrap()), (b"in th", 5));
        assert_eq!(read(file.as_fd(), &mut bytes, Some(12)).unwrap(), CachedRead::Read(0));
        assert_eq!(read(file.as_fd(), &mut [], None).unwrap(), CachedRead::Read(0));
    }

    #[test]
    fn bytes_that_are_only_on_the_device_are_not_waited_for() {
        let mut file = file(&std::env::temp_dir());
        file.write_all(&[7; 1 << 20]).unwrap();
        file.sync_all().unwrap();
        // SAFETY: takes plain integers.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        let mut bytes = [0; 4096];
        match read(file.as_fd(), &mut bytes, Some(512 << 10)).unwrap() {
            CachedRead::Waits => {}
            other => println!("skipped: the kernel has kept the pages, or cannot tell: {other:?}"),
        }
    }

    #[test]
    fn pipes_and_directories_have_no_offsets() {
        assert!(has_offsets(file(&std::env::temp_dir()).as_fd()));
        assert!(!has_offsets(File::open(std::env::temp_dir()).unwrap().as_fd()));
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(!has_offsets(reader.as_fd()));
        assert!(!has_offsets(File::open("/dev/null").unwrap().as_fd()));
    }

    #[test]
    fn direct_files_are_told_from_others() {
        assert!(!is_direct(file(&std::env::temp_dir()).as_fd()));
        let flags = libc::O_TMPFILE | libc::O_DIRECT;
        let direct = File::options().write(true).custom_flags(flags).open(std::env::temp_dir());
        match direct {
            Ok(direct) => assert!(is_direct(direct.as_fd())),
            Err(error) => println!("skipped: the temporary folder has no direct files: {error}"),
        }
    }

    #[test]
    fn errors_are_told() {
        if LinuxPart::ReadFlags.is_lacking() {
            return;
        }
        let sink = File::options().write(true).open("/dev/null").unwrap();
        let error = read(sink.as_fd(), &mut [0], None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        let error = read(sink.as_fd(), &mut [0], Some(u64::MAX)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn files_of_shared_memory_have_no_device() {
        let folder = Path::new("/dev/shm");
        if folder.exists() {
            assert!(is_memory(file(folder).as_fd()));
        }
        assert!(!is_memory(File::open("/proc/self/status").unwrap().as_fd()));
    }
}
