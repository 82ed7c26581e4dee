//! Files and directories, as in [`std::fs`], with waits that suspend the fiber.
//!
//! ```
//! # daiko::run(|| {
//! use daiko::fs::{self, File};
//! use std::io::{Read, Write};
//!
//! let folder = std::env::temp_dir().join(format!("daiko-fs-{}", std::process::id()));
//! fs::create_dir(&folder)?;
//! let mut log = File::create(folder.join("log"))?;
//! log.write_all(b"a record")?;
//! log.sync_data()?;
//!
//! let mut text = String::new();
//! File::open(folder.join("log"))?.read_to_string(&mut text)?;
//! assert_eq!(text, "a record");
//! fs::remove_dir_all(&folder)?;
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Waits
//!
//! The functions have the names, the arguments and the errors of `std`. In a fiber,
//!
//! - a read first takes the bytes in the page cache (`preadv2` with `RWF_NOWAIT`): no other thread
//!   takes part then;
//! - files without a device (tmpfs) are read and written by the fiber itself;
//! - where the worker waits for sockets by [io_uring](crate::net::Selector::IoUring), the kernel
//!   makes calls with an offset ([`FileExt`](std::os::unix::fs::FileExt)), and `sync_all` and
//!   `sync_data`, while the fiber is suspended. The worker passes on the calls of its fibers
//!   together, once no fiber is runnable or after some suspensions;
//! - all other calls run on a thread of the pool of [`blocking`](crate::blocking()), which has the
//!   limits of that pool, while the fiber is suspended. Such a call wakes a thread, which wakes the
//!   worker, so read and write with offsets, or in large pieces: [`std::io::BufWriter`] works.
//!
//! Threads that are no fibers block, as with `std`.
//!
//! A cancel or a [timeout](crate::time::timeout) does not cut a call short: the kernel may be using
//! its buffer. The fiber returns once the call has ended. If a disk hangs, the fiber does. A
//! program that forbids `io_uring_enter` by a filter of system calls while the kernel has such
//! calls is ended, as their fibers can never be told.
//!
//! # Panics
//!
//! All functions panic where they would wait inside [`no_suspend`](crate::no_suspend) or a
//! [`Poller`](crate::agent::Poller).

mod by_kernel;
#[cfg(test)]
mod by_kernel_tests;
mod file;
mod folder;
mod medium;
mod options;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use file::File;
pub use folder::{DirEntry, ReadDir, read_dir};
pub use options::OpenOptions;
pub use std::fs::{FileTimes, FileType, Metadata, Permissions, TryLockError};

use crate::blocking;

/// Reads a whole file, as [`std::fs::read`] does.
///
/// # Errors
///
/// Those of [`std::fs::read`].
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    blocking(|| fs::read(path))
}

/// Reads a whole file as text, as [`std::fs::read_to_string`] does.
///
/// # Errors
///
/// Those of [`std::fs::read_to_string`].
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let path = path.as_ref();
    blocking(|| fs::read_to_string(path))
}

/// Makes `contents` the whole file, as [`std::fs::write`] does. The file is not synchronised.
///
/// # Errors
///
/// Those of [`std::fs::write`].
pub fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let (path, contents) = (path.as_ref(), contents.as_ref());
    blocking(|| fs::write(path, contents))
}

/// Copies a file with its permissions, as [`std::fs::copy`] does, and returns its length in bytes.
///
/// # Errors
///
/// Those of [`std::fs::copy`].
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let (from, to) = (from.as_ref(), to.as_ref());
    blocking(|| fs::copy(from, to))
}

/// Renames a file or a directory, as [`std::fs::rename`] does.
///
/// # Errors
///
/// Those of [`std::fs::rename`].
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    blocking(|| fs::rename(from, to))
}

/// Gives a file one more name, as [`std::fs::hard_link`] does.
///
/// # Errors
///
/// Those of [`std::fs::hard_link`].
pub fn hard_link(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (original, link) = (original.as_ref(), link.as_ref());
    blocking(|| fs::hard_link(original, link))
}

/// Creates a symbolic link, as [`std::os::unix::fs::symlink`] does.
///
/// # Errors
///
/// Those of [`std::os::unix::fs::symlink`].
pub fn symlink(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let (original, link) = (original.as_ref(), link.as_ref());
    blocking(|| std::os::unix::fs::symlink(original, link))
}

/// Returns the target of a symbolic link, as [`std::fs::read_link`] does.
///
/// # Errors
///
/// Those of [`std::fs::read_link`].
pub fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    blocking(|| fs::read_link(path))
}

/// Returns the absolute path without links, as [`std::fs::canonicalize`] does.
///
/// # Errors
///
/// Those of [`std::fs::canonicalize`].
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    blocking(|| fs::canonicalize(path))
}

/// Returns the metadata of a file, as [`std::fs::metadata`] does. It follows links.
///
/// # Errors
///
/// Those of [`std::fs::metadata`].
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    blocking(|| fs::metadata(path))
}

/// Returns the metadata of a file or a link, as [`std::fs::symlink_metadata`] does.
///
/// # Errors
///
/// Those of [`std::fs::symlink_metadata`].
pub fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    let path = path.as_ref();
    blocking(|| fs::symlink_metadata(path))
}

/// Returns true if there is such a file, as [`std::fs::exists`] does.
///
/// # Errors
///
/// Those of [`std::fs::exists`].
pub fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    let path = path.as_ref();
    blocking(|| fs::exists(path))
}

/// Sets the permissions of a file, as [`std::fs::set_permissions`] does.
///
/// # Errors
///
/// Those of [`std::fs::set_permissions`].
pub fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| fs::set_permissions(path, permissions))
}

/// Creates a directory, as [`std::fs::create_dir`] does.
///
/// # Errors
///
/// Those of [`std::fs::create_dir`].
pub fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| fs::create_dir(path))
}

/// Creates a directory and the directories above it, as [`std::fs::create_dir_all`] does.
///
/// # Errors
///
/// Those of [`std::fs::create_dir_all`].
pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| fs::create_dir_all(path))
}

/// Removes a file, as [`std::fs::remove_file`] does.
///
/// # Errors
///
/// Those of [`std::fs::remove_file`].
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| fs::remove_file(path))
}

/// Removes an empty directory, as [`std::fs::remove_dir`] does.
///
/// # Errors
///
/// Those of [`std::fs::remove_dir`].
pub fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| fs::remove_dir(path))
}

/// Removes a directory and all that it contains, as [`std::fs::remove_dir_all`] does.
///
/// # Errors
///
/// Those of [`std::fs::remove_dir_all`].
pub fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    blocking(|| fs::remove_dir_all(path))
}
