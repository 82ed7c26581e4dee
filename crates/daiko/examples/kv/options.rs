//! The arguments of the program.

use std::ffi::OsString;
use std::path::Path;

use super::log::{Fsync, LogOptions};

pub(crate) const USAGE: &str = "use it so: kv [ADDRESS] [--log FILE [--fsync always|everysec|no] \
     [--rewrite-from BYTES] [--cut-damaged]]";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) address: String,
    /// `None`: all keys are only in memory.
    pub(crate) log: Option<LogOptions>,
}

impl Options {
    /// Reads the arguments.
    ///
    /// # Errors
    ///
    /// One line for the user.
    pub(crate) fn of(mut words: impl Iterator<Item = OsString>) -> Result<Options, String> {
        let (mut address, mut path) = (None, None);
        let mut log = LogOptions::new(Path::new(""));
        let mut of_log = None;
        while let Some(word) = words.next() {
            let name = word.to_string_lossy().into_owned();
            let mut value = || words.next().ok_or_else(|| format!("{name} needs a value; {USAGE}"));
            match &*name {
                "--log" => path = Some(value()?),
                "--fsync" => log.fsync = fsync(&value()?)?,
                "--rewrite-from" => log.rewrite_bytes = bytes(&value()?)?,
                "--cut-damaged" => log.cuts_damaged = true,
                _ if name.starts_with("--") || address.is_some() => {
                    return Err(format!("unknown argument {name:?}; {USAGE}"));
                }
                _ => address = Some(name.clone()),
            }
            if name.starts_with("--") && name != "--log" {
                of_log = Some(name);
            }
        }
        let log = match (path, of_log) {
            (Some(path), _) => Some(LogOptions { path: path.into(), ..log }),
            (None, Some(name)) => return Err(format!("{name} needs --log FILE; {USAGE}")),
            (None, None) => None,
        };
        Ok(Options { address: address.unwrap_or("127.0.0.1:6379".into()), log })
    }
}

fn fsync(word: &OsString) -> Result<Fsync, String> {
    let found = Fsync::NAMES.iter().find(|(name, _)| word == name);
    found
        .map(|(_, fsync)| *fsync)
        .ok_or_else(|| format!("--fsync {word:?} is none of these; {USAGE}"))
}

fn bytes(word: &OsString) -> Result<u64, String> {
    let number = word.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| format!("--rewrite-from {word:?} is no number of bytes; {USAGE}"))
}
