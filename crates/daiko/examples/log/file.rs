//! The file of the log. Only its server may use it, so it is locked.

use std::ffi::OsString;
use std::fs::TryLockError;
use std::io::{self, ErrorKind, Write};
use std::ops::Deref;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::contents::PROGRAM;
use super::platform::{File, fs};
use super::record::Format;
use super::replay::{Contents, ReplayError, Rest, replay};

/// The number of bytes that are copied at a time.
const COPY_BYTES: usize = 256 << 10;

/// The most bytes that the caller's own thread writes at a time.
const SHORT_BYTES: usize = 64 << 10;

/// An open log.
pub(crate) struct LogFile {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<OpenFile>,
    /// The bytes of whole records, with the head. An interrupted write may have left more.
    pub(crate) len: u64,
    /// Set if bytes were written since they were last synchronised.
    pub(crate) is_dirty: bool,
    /// Set while the file is synchronised: the file system may make writes wait for that.
    pub(crate) is_syncing: bool,
}

/// An open file, twice.
pub(crate) struct OpenFile {
    file: File,
    /// Its writes are made by the caller's own thread.
    own: std::fs::File,
}

impl Deref for OpenFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

/// The reason why records are not in the log.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// There is no room, as of now. The records may be written again.
    NoRoom(io::Error),
    /// The device has failed. It is unknown which records it has.
    Failed(io::Error),
}

impl LogFile {
    /// Opens the log, creates it if there is none, and calls `each` with its records. A torn record
    /// at its end is cut off; with `cuts_damaged`, all records behind a damaged one are as well.
    ///
    /// # Errors
    ///
    /// One line for the user.
    pub(crate) fn open(
        path: &Path,
        cuts_damaged: bool,
        each: impl FnMut(&[u8]),
    ) -> Result<(LogFile, Contents), String> {
        let cannot = |error: io::Error| {
            format!(
                "cannot use the log {path:?}: {error}; name a file that can be read and written"
            )
        };
        let file = lock(path)?;
        let metadata = file.metadata().map_err(cannot)?;
        if !metadata.is_file() {
            return Err(format!("the log {path:?} is no regular file: name another"));
        }
        match fs::remove_file(new_path(path)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(cannot(error)),
            _ => {}
        }
        if metadata.len() == 0 {
            file.write_all_at(&Format::new().head(), 0).map_err(cannot)?;
            file.sync_all().and_then(|()| sync_folder(path)).map_err(cannot)?;
        }
        let contents = match replay(&file, each) {
            Ok(contents) => contents,
            Err(ReplayError::Read(error)) => return Err(cannot(error)),
            Err(ReplayError::Foreign) => {
                return Err(format!("{path:?} is no log of this program: name another file"));
            }
        };
        let Contents { bytes, rest, .. } = contents;
        match rest {
            Rest::None => {}
            Rest::Damaged(rest) if !cuts_damaged => {
                return Err(format!(
                    "the log {path:?} is damaged at byte {bytes}, with whole records behind: \
                     restore a copy, or give up its last {rest} bytes by --cut-damaged"
                ));
            }
            Rest::Torn(rest) | Rest::Damaged(rest) => {
                file.set_len(bytes).and_then(|()| file.sync_all()).map_err(cannot)?;
                tell(&format!(
                    "the log {path:?} is cut off at byte {bytes}: the {rest} bytes behind are no whole record"
                ));
            }
        }
        let file = LogFile::of(path.into(), file, bytes).map_err(cannot)?;
        Ok((file, contents))
    }

    fn of(path: PathBuf, file: File, len: u64) -> io::Result<LogFile> {
        let own = file.as_fd().try_clone_to_owned()?.into();
        let file = Arc::new(OpenFile { file, own });
        Ok(LogFile { path, file, len, is_dirty: false, is_syncing: false })
    }

    /// Writes records behind the last, and synchronises them if `syncs`. If that fails, the next
    /// call overwrites the written bytes.
    pub(crate) fn append(&mut self, records: &[u8], syncs: bool) -> Result<(), AppendError> {
        self.write(records).map_err(AppendError::of_write)?;
        if syncs {
            self.file.sync_data().map_err(AppendError::Failed)?;
        } else {
            self.is_dirty = true;
        }
        self.len += records.len() as u64;
        Ok(())
    }

    /// Writes bytes behind the last. They go to the page cache, in which some records take less
    /// time than a wait.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self.is_syncing || bytes.len() > SHORT_BYTES {
            true => self.file.write_all_at(bytes, self.len),
            false => self.file.own.write_all_at(bytes, self.len),
        }
    }

    /// Creates the file that is to replace the log.
    pub(crate) fn create_new(&self, format: Format) -> io::Result<LogFile> {
        let path = new_path(&self.path);
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        // Locked before it gets the name of the log, so that there is no time without a lock.
        file.try_lock().map_err(io::Error::from)?;
        let mut new = LogFile::of(path, file, 0)?;
        new.extend(&format.head())?;
        Ok(new)
    }

    /// Writes bytes behind the last.
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.len)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Copies the bytes of another log from `*from` to `to`, and moves `from` there.
    pub(crate) fn copy(&mut self, other: &File, from: &mut u64, to: u64) -> io::Result<()> {
        let mut bytes = vec![0; COPY_BYTES.min(to.saturating_sub(*from) as usize)];
        while *from < to {
            let piece = bytes.len().min((to - *from) as usize);
            other.read_exact_at(&mut bytes[..piece], *from)?;
            self.extend(&bytes[..piece])?;
            *from += piece as u64;
        }
        Ok(())
    }

    /// Removes the file, as it does not replace the log.
    pub(crate) fn discard(self) {
        // The rest is overwritten by the next.
        let _ = fs::remove_file(&self.path);
    }
}

impl AppendError {
    fn of_write(error: io::Error) -> AppendError {
        use ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match error.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => AppendError::NoRoom(error),
            _ => AppendError::Failed(error),
        }
    }
}

/// Opens the log, or creates it, and locks it for this server.
fn lock(path: &Path) -> Result<File, String> {
    let name = || format!("the log {path:?}");
    let cannot = |error| {
        let name = name();
        format!("cannot open {name}: {error}; name a file in a folder that can be written")
    };
    loop {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let name = name();
                return Err(format!(
                    "another server has {name}: stop that server, or name another file"
                ));
            }
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        // Its server may have replaced the log between the two calls.
        let (own, named) = (file.metadata().map_err(cannot)?, fs::metadata(path));
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())) {
            return Ok(file);
        }
    }
}

/// The path of the file that is to replace a log.
fn new_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".new");
    name.into()
}

/// Makes the name of a file last.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Prints a line for the user. If standard error is closed, there is no place for it.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{PROGRAM}: {line}");
}
