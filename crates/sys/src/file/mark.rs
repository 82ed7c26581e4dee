//! Marks on a file that end with the program that has set them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// The first byte that is locked: no file has it, and no other program locks it.
const FIRST: libc::off_t = 1 << 40;

/// The marks of an open file.
///
/// A mark is a lock of one byte by the open file (`F_OFD_SETLK`). The kernel ends it when the last
/// descriptor of the open file is closed: when the process ends, or becomes another program
/// (`exec`). A forked child that has inherited the descriptor keeps the mark. Any process that has
/// the file open, of any user, can ask for it.
///
/// # Examples
///
/// ```
/// use daiko_sys::file::{FileMarks, SharedFile};
/// use std::os::fd::AsFd;
///
/// let name = format!("daiko-mark-{}", std::process::id());
/// let mut file = SharedFile::create(&name, 4096)?;
/// let other = SharedFile::open(&name)?;
/// let [mine, theirs] = [&file, &other].map(|file| FileMarks::of(file.as_fd()).unwrap());
/// assert!(theirs.set(3) && !mine.is_free(3) && !mine.set(3) && mine.is_free(4));
/// drop((other, theirs));
/// assert!(mine.is_free(3));
/// assert!(file.lock()?.remove()?);
/// # Ok::<(), daiko_sys::file::FileError>(())
/// ```
#[derive(Debug)]
pub struct FileMarks(OwnedFd);

impl FileMarks {
    /// Returns the marks of this open file, which they keep open.
    ///
    /// # Errors
    ///
    /// If the process has no descriptor left.
    pub fn of(file: BorrowedFd<'_>) -> io::Result<Self> {
        file.try_clone_to_owned().map(Self)
    }

    /// Sets mark number `index`. Returns false if another open file has set it, or the file system
    /// has no such locks.
    #[must_use]
    pub fn set(&self, index: u16) -> bool {
        self.command(libc::F_OFD_SETLK, index, libc::F_WRLCK).is_some()
    }

    /// Ends mark number `index`, if this open file has set it.
    pub fn clear(&self, index: u16) {
        let _ = self.command(libc::F_OFD_SETLK, index, libc::F_UNLCK);
    }

    /// Returns true if no other open file has set mark number `index`; false also if the file
    /// system cannot tell.
    pub fn is_free(&self, index: u16) -> bool {
        self.command(libc::F_OFD_GETLK, index, libc::F_WRLCK) == Some(libc::F_UNLCK)
    }

    /// Executes a command on the lock of one byte. Returns the kernel's kind of lock; `None` if it
    /// refuses.
    fn command(&self, command: i32, index: u16, kind: i32) -> Option<i32> {
        let mut lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: FIRST + libc::off_t::from(index),
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: these commands take a live lock, which they may change.
        let done = unsafe { libc::fcntl(self.0.as_raw_fd(), command, &raw mut lock) };
        (done == 0).then_some(lock.l_type.into())
    }
}
