//! The options of an open file.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::File;
use crate::blocking;

/// Options for opening a file, as [`std::fs::OpenOptions`].
///
/// # Examples
///
/// ```
/// # daiko::run(|| {
/// use std::io::Write;
///
/// let path = std::env::temp_dir().join(format!("daiko-options-{}", std::process::id()));
/// let mut log = daiko::fs::OpenOptions::new().append(true).create_new(true).open(&path)?;
/// log.write_all(b"a record")?;
/// daiko::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions(fs::OpenOptions);

impl OpenOptions {
    /// Creates options with which nothing is allowed yet.
    #[expect(clippy::new_without_default, reason = "as in std")]
    pub fn new() -> Self {
        Self(fs::OpenOptions::new())
    }

    /// Allows reads.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.0.read(read);
        self
    }

    /// Allows writes.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.0.write(write);
        self
    }

    /// Makes each write go to the end of the file.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.0.append(append);
        self
    }

    /// Empties the file.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.0.truncate(truncate);
        self
    }

    /// Creates the file if there is none.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.0.create(create);
        self
    }

    /// Creates the file, and fails if there is one.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.0.create_new(create_new);
        self
    }

    /// Sets the mode of a file that is created, before the umask; by default 0o666.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.0.mode(mode);
        self
    }

    /// Adds flags of `open`, such as `O_DIRECT` or `O_DSYNC`.
    ///
    /// With `O_DIRECT`, each read and write waits for the device, and its buffer,
    /// length and offset are multiples of the device's block, in most cases 512 or 4096 bytes: the
    /// kernel refuses others as invalid ([`InvalidInput`](io::ErrorKind::InvalidInput)). tmpfs
    /// takes any. The flag belongs to the open file from its opening on: one that is set later, by
    /// `fcntl`, lets reads block the worker.
    ///
    /// # Examples
    ///
    /// ```
    /// # daiko::run(|| {
    /// use daiko::fs::OpenOptions;
    /// use std::os::unix::fs::FileExt;
    ///
    /// #[repr(align(4096))]
    /// struct Block([u8; 4096]);
    ///
    /// let path = std::env::temp_dir().join(format!("daiko-direct-{}", std::process::id()));
    /// let mut options = OpenOptions::new();
    /// options.read(true).write(true).create_new(true).custom_flags(libc::O_DIRECT);
    /// // Some file systems have no direct access.
    /// if let Ok(file) = options.open(&path) {
    ///     let mut block = Block([7; 4096]);
    ///     file.write_all_at(&block.0, 4096)?;
    ///     file.read_exact_at(&mut block.0, 0)?;
    ///     assert_eq!(block.0[0], 0);
    ///     daiko::fs::remove_file(&path)?;
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.0.custom_flags(flags);
        self
    }

    /// Opens a file.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::OpenOptions::open`].
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        blocking(|| File::open_with(&self.0, path))
    }
}

impl From<fs::OpenOptions> for OpenOptions {
    fn from(options: fs::OpenOptions) -> Self {
        Self(options)
    }
}
