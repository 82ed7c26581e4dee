//! Reasons for refusing a command line.

use std::{
    fmt::{self, Write},
    io,
};

/// A reason to end, in one line with its remedy.
#[derive(Debug)]
pub enum Problem {
    /// The command line is invalid or impossible.
    Usage(String),
    /// The system refused a request while the command ran.
    System(String),
    /// The reader of standard output has closed it, which is no error.
    ReaderGone,
}

impl Problem {
    pub fn usage(line: impl Into<String>) -> Self {
        Self::Usage(line.into())
    }

    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::System(_) => 1,
            Self::ReaderGone => 0,
        }
    }
}

/// Writes one line, with control characters of quoted words escaped.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = match self {
            Self::Usage(line) | Self::System(line) => line,
            Self::ReaderGone => "standard output is closed",
        };
        line.chars().try_for_each(|character| match character.is_control() {
            true => write!(f, "{}", character.escape_default()),
            false => f.write_char(character),
        })
    }
}

/// Converts errors of writing to standard output.
impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::System(format!("cannot write to standard output: {error}")),
        }
    }
}
