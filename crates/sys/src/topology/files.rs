//! The files of a description: of a system, or made up.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::TopologyError;
use crate::cpu::CpuSet;

/// The text of a file, which is named by an absolute path.
pub(super) type Source<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Longer than any file that is read here: the list of every second CPU below [`CpuSet::LIMIT`] is a third of it.
const LONGEST: u64 = 64 << 10;

/// How much of a malformed text an error shows, in characters.
const SHOWN: usize = 40;

/// Reads a file of the system. Whoever writes the description cannot have it wait (a pipe) or go on for ever (a device).
pub(super) fn of_system(file: &Path) -> io::Result<String> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file)?;
    let mut bytes = Vec::new();
    opened.take(LONGEST).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == LONGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than any of sysfs"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Where a description is, and how its files are read.
#[derive(Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) root: &'a Path,
    pub(super) source: Source<'a>,
}

impl Files<'_> {
    fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// What a file says, without the line feed that ends it; `None` if there is no such file. Some kernels (5.16 is one)
    /// give the zero byte behind it away as well.
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

    /// A list of CPUs, or of nodes, which are written the same.
    pub(super) fn list(&self, file: &str) -> Result<Option<CpuSet>, TopologyError> {
        self.value(file)
    }

    /// A list that every kernel has.
    pub(super) fn needed(&self, file: &str) -> Result<CpuSet, TopologyError> {
        self.list(file)?.ok_or_else(|| self.missing(file))
    }

    /// Whatever is read from a whole text.
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
