//! Files without a path and with a sealed size.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use super::{FileError, Permitted, Reason, SharedFile, allocate, failed};

/// The seals that fix a memfd's size for ever.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

impl SharedFile {
    /// Creates a file without a path, of at least `bytes` bytes, whole pages of zeros. Its users
    /// are processes that inherit or are sent its descriptor.
    ///
    /// Its size is sealed, so that no process can make another one fault. `name` is shown in
    /// `/proc/PID/maps` and need not be unique.
    ///
    /// # Errors
    ///
    /// [`Reason::BadName`] for more than 249 bytes or a zero byte, [`Reason::Full`],
    /// [`Reason::SizeLimit`].
    pub fn memfd(name: &str, bytes: usize) -> Result<Self, FileError> {
        Self::memfd_for(&Permitted::default(), name, bytes)
    }

    /// Creates a file like [`SharedFile::memfd`], for the permitted users.
    ///
    /// # Errors
    ///
    /// The errors of [`SharedFile::memfd`]; [`Reason::NoList`].
    pub fn memfd_for(permitted: &Permitted, name: &str, bytes: usize) -> Result<Self, FileError> {
        let path = Path::new(name);
        let file = File::from(unsealed(name)?);
        // The kernel lets all users open it that get a descriptor of it.
        permitted.grant(&file, path)?;
        let size = allocate(&file, path, bytes)?;
        // SAFETY: this command takes one plain integer.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } {
            -1 => Err(failed(path, std::io::Error::last_os_error())),
            _ => Ok(Self { file, path: path.to_owned(), size }),
        }
    }

    /// Takes a descriptor that another process made by [`SharedFile::memfd`].
    ///
    /// # Errors
    ///
    /// [`Reason::Unsealed`] if the size may change; otherwise the errors of [`SharedFile::open`].
    pub fn from_memfd(descriptor: OwnedFd) -> Result<Self, FileError> {
        Self::from_memfd_for(&Permitted::default(), descriptor)
    }

    /// Takes a descriptor like [`SharedFile::from_memfd`], of the permitted users alone.
    ///
    /// # Errors
    ///
    /// The errors of [`SharedFile::from_memfd`].
    pub fn from_memfd_for(permitted: &Permitted, descriptor: OwnedFd) -> Result<Self, FileError> {
        let number = descriptor.as_raw_fd();
        // SAFETY: this command takes no further argument and fails for a file without seals.
        let seals = unsafe { libc::fcntl(number, libc::F_GET_SEALS) };
        let path = format!("memfd {number}").into();
        let file = Self::over(File::from(descriptor), path, permitted)?;
        if seals == -1 || seals & SEALS != SEALS {
            return Err(FileError::new(&file.path, Reason::Unsealed));
        }
        permitted.check_grants(&file.file, &file.path)?;
        Ok(file)
    }
}

/// Creates a file in memory without seals.
pub(super) fn unsealed(name: &str) -> Result<OwnedFd, FileError> {
    const MFD_NOEXEC_SEAL: libc::c_uint = 8;
    let path = Path::new(name);
    let text = CString::new(name).map_err(|_| FileError::new(path, Reason::BadName))?;
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // Kernels from 6.3 on may insist on that flag; older kernels do not know it.
    for flags in [flags | MFD_NOEXEC_SEAL, flags] {
        // SAFETY: the name is live and ends in a zero byte.
        let descriptor = unsafe { libc::memfd_create(text.as_ptr(), flags) };
        if descriptor >= 0 {
            // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
            return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
    }
    match crate::thread::errno() {
        libc::EINVAL => Err(FileError::new(path, Reason::BadName)),
        errno => Err(FileError::diagnose(path, errno)),
    }
}
