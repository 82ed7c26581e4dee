//! Why a command line is not carried out.

use std::{fmt, io};

/// A reason to end, told in one line with its remedy.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The command line asks for what there is not.
    Usage(String),
    /// The system refused something while the command ran.
    System(String),
    /// Whoever read standard output went away: nothing is wrong.
    ReaderGone,
}

impl Problem {
    pub(crate) fn usage(line: impl Into<String>) -> Self {
        Self::Usage(line.into())
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::System(_) => 1,
            Self::ReaderGone => 0,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(line) | Self::System(line) => f.write_str(line),
            Self::ReaderGone => f.write_str("standard output is closed"),
        }
    }
}

/// Errors of writing to standard output.
impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::System(format!("cannot write to standard output: {error}")),
        }
    }
}
