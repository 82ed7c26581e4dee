//! The files of a description: of a system, or synthetic.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::TopologyError;
use crate::cpu::CpuSet;

/// Returns the text of a file, given its absolute path.
pub(super) type FileReader<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Longer than any file that is read here: the list of every second CPU below [`CpuSet::LIMIT`] is
/// a third of it.
const LONGEST: u64 = 64 << 10;

/// Characters of a malformed text in an error.
const SHOWN: usize = 40;

/// Reads a file of the system. A hostile description can neither block the reader (a pipe) nor feed
/// it without end (a device).
pub(super) fn of_system(file: &Path) -> io::Result<String> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file)?;
    let mut bytes = Vec::new();
    opened.take(LONGEST).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == LONGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than any of sysfs"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The root of a description, and the function that reads its files.
#[derive(Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) root: &'a Path,
    pub(super) source: FileReader<'a>,
}

impl Files<'_> {
    fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// The text of a file without its final line feed; `None` if there is no such file. Some
    /// kernels (5.16 is one) also return the zero byte behind it.
    pub(super) fn text(&self, file: &str) -> Result<Option<String>, TopologyError> {
        let path = self.path(file);
        match (self.source)(&path) {
            Ok(mut text) => {
                let line = text.strip_suffix('\0').unwrap_or(&text);
                text.truncate(line.strip_suffix('\n').unwrap_or(line).len());
                Ok(Some(text))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(TopologyError::Unreadable { file: path, error }),
        }
    }

    /// A list of CPUs, or of nodes, which have the same format.
    pub(super) fn list(&self, file: &str) -> Result<Option<CpuSet>, TopologyError> {
        self.value(file)
    }

    /// A list that every kernel has.
    pub(super) fn needed(&self, file: &str) -> Result<CpuSet, TopologyError> {
        self.list(file)?.ok_or_else(|| self.missing(file))
    }

    /// A value parsed from the whole text.
    pub(super) fn value<T: FromStr>(&self, file: &str) -> Result<Option<T>, TopologyError> {
        let Some(text) = self.text(file)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| self.malformed(file, &text))
    }

    pub(super) fn missing(&self, file: &str) -> TopologyError {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        TopologyError::Unreadable { file: self.path(file), error }
    }

    pub(super) fn malformed(&self, file: &str, text: &str) -> TopologyError {
        TopologyError::Malformed { file: self.path(file), text: text.chars().take(SHOWN).collect() }
    }

    pub(super) fn contradictory(&self, file: &str) -> TopologyError {
        TopologyError::Contradictory { file: self.path(file) }
    }
}
