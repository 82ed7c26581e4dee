//! Operations that apply to any descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

/// Makes the open file of `fd` non-blocking, or blocking, for all its descriptors.
///
/// # Errors
///
/// The error of `fcntl`.
pub fn set_nonblocking(fd: BorrowedFd<'_>, nonblocking: bool) -> io::Result<()> {
    // SAFETY: these commands take no pointer.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    let wanted = if nonblocking { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
    if wanted != flags {
        // SAFETY: as above.
        check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, wanted) })?;
    }
    Ok(())
}

/// Returns true if calls on `fd` never wait for a peer: it is a regular file, a directory or a
/// disk.
///
/// # Errors
///
/// The error of `fstat`.
pub fn is_always_ready(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the result goes to a live local of its type.
    check(unsafe { libc::fstat(fd.as_raw_fd(), stat.as_mut_ptr()) })?;
    // SAFETY: the call has succeeded and so filled it.
    let mode = unsafe { stat.assume_init() }.st_mode;
    Ok(matches!(mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK))
}

/// Returns true if a program in this file gains capabilities when it starts. The dynamic linker
/// ignores some variables for such a program.
///
/// # Errors
///
/// The error of `fgetxattr`, unless it says that there is no such attribute.
pub fn has_capabilities(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let name = c"security.capability".as_ptr();
    // SAFETY: the name is a string, and a buffer of size 0 is not written.
    let size = unsafe { libc::fgetxattr(fd.as_raw_fd(), name, std::ptr::null_mut(), 0) };
    match usize::try_from(size) {
        Ok(size) => Ok(size > 0),
        Err(_) => {
            let error = io::Error::last_os_error();
            let is_absent = matches!(error.raw_os_error(), Some(libc::ENODATA | libc::ENOTSUP));
            if is_absent { Ok(false) } else { Err(error) }
        }
    }
}

/// Turns the result -1 into the error in `errno`.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Gives a descriptor a number from `lowest` on, unless none is free there.
pub fn numbered_from(lowest: RawFd, fd: OwnedFd) -> OwnedFd {
    if fd.as_raw_fd() >= lowest {
        return fd;
    }
    // SAFETY: takes plain integers.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest) } {
        -1 => fd,
        // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
        number => unsafe { OwnedFd::from_raw_fd(number) },
    }
}

/// The way in which descriptors of the runtime are kept from a program that does not know of them,
/// and may close all numbers.
#[derive(Clone, Copy)]
pub struct Reservation {
    /// Gives a descriptor a number that the program leaves alone.
    pub take: fn(OwnedFd) -> OwnedFd,
    /// The number is about to be closed.
    pub give_back: fn(RawFd),
}

static RESERVATION: OnceLock<Reservation> = OnceLock::new();

/// Sets the way in which descriptors are reserved from here on. Without it they have any number.
pub fn reserve_by(reservation: Reservation) {
    let _ = RESERVATION.set(reservation);
}

/// A descriptor of the runtime.
#[derive(Debug)]
pub struct Reserved<T: AsRawFd>(T);

impl<T: AsRawFd + From<OwnedFd> + Into<OwnedFd>> Reserved<T> {
    /// Reserves the number of `fd`, which may become another one.
    pub fn new(fd: T) -> Self {
        match RESERVATION.get() {
            Some(reservation) => Reserved(T::from((reservation.take)(fd.into()))),
            None => Reserved(fd),
        }
    }
}

impl<T: AsRawFd> Drop for Reserved<T> {
    fn drop(&mut self) {
        if let Some(reservation) = RESERVATION.get() {
            (reservation.give_back)(self.0.as_raw_fd());
        }
    }
}

impl<T: AsRawFd> Deref for Reserved<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_file_without_capabilities_has_none() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(!has_capabilities(file.as_fd()).unwrap());
        assert!(!has_capabilities(File::open("/proc/version").unwrap().as_fd()).unwrap());
    }

    #[test]
    fn a_call_that_would_wait_fails_until_the_descriptor_blocks_again() {
        let (mut reader, writer) = io::pipe().unwrap();
        set_nonblocking(reader.as_fd(), true).unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        set_nonblocking(reader.as_fd(), false).unwrap();
        drop(writer);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn files_and_folders_are_always_ready_and_pipes_are_not() {
        let (reader, _) = io::pipe().unwrap();
        assert!(!is_always_ready(reader.as_fd()).unwrap());
        for path in ["/proc/self/exe", "/"] {
            assert!(is_always_ready(File::open(path).unwrap().as_fd()).unwrap());
        }
        assert!(!is_always_ready(File::open("/dev/null").unwrap().as_fd()).unwrap());
    }
}
