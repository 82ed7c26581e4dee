//! The reason why a command line fails.

use std::fmt::{self, Write};
use std::io;

use crate::client::KvError;

/// A reason to end, printed in one line with its remedy.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The command line is invalid.
    Usage(String),
    /// The command failed.
    Failed(String),
    /// The reader of standard output has left: this is no failure.
    ReaderGone,
}

impl Problem {
    /// Makes a failure of an error.
    pub(crate) fn failed(error: impl fmt::Display) -> Self {
        Problem::Failed(error.to_string())
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Problem::Usage(_) => 2,
            Problem::Failed(_) => 1,
            Problem::ReaderGone => 0,
        }
    }
}

/// Prints one line, even if the quoted words hold control characters.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = match self {
            Problem::Usage(line) | Problem::Failed(line) => line,
            Problem::ReaderGone => "standard output is closed",
        };
        line.chars().try_for_each(|character| match character.is_control() {
            true => write!(f, "{}", character.escape_default()),
            false => f.write_char(character),
        })
    }
}

impl From<KvError> for Problem {
    fn from(error: KvError) -> Self {
        Problem::failed(error)
    }
}

/// Converts errors of writing to standard output.
impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Problem::ReaderGone,
            _ => Problem::Failed(format!("cannot write to standard output: {error}")),
        }
    }
}
