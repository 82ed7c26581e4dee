//! Why a point has no value: left out on purpose, or gone wrong.

use std::error::Error;
use std::fmt;

use daiko::{BuildError, JoinError, SpawnError};
use serde::{Deserialize, Serialize};

/// A point that is left out, with the reason a user reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// One line: what is missing and, where there is one, the remedy.
    pub reason: String,
}

impl Skip {
    /// A skip for `reason`, one line without a full stop.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// A sample that was started and gave no value. Each is told in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// Something the sample needs is not there (a library, a feature of the
    /// kernel): what, and the remedy.
    Unavailable(String),
    /// A limit of the system was reached: which, and how to raise it.
    Limit(String),
    /// Not one of what is counted was done in the time that a sample has.
    TooShort(String),
    /// A thread read another datum than this lap's.
    WrongDatum {
        /// What the lap sent.
        expected: u64,
        /// What arrived.
        found: u64,
    },
    /// The child process died or hung, or a system call failed.
    Broken(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(line)
            | Self::Limit(line)
            | Self::TooShort(line)
            | Self::Broken(line) => f.write_str(line),
            Self::WrongDatum { expected, found } => {
                write!(f, "wrong datum: {found} arrived where {expected} was sent")
            }
        }
    }
}

impl Error for Failure {}

impl From<Skip> for Failure {
    fn from(skip: Skip) -> Self {
        Self::Unavailable(skip.reason)
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        Self::Limit(error.to_string())
    }
}

impl From<SpawnError> for Failure {
    fn from(error: SpawnError) -> Self {
        Self::Limit(error.to_string())
    }
}

impl From<JoinError> for Failure {
    fn from(error: JoinError) -> Self {
        Self::Broken(format!("daiko: {error}"))
    }
}

/// Says what failed, with the error behind it.
pub(crate) trait OrFailure<T> {
    /// As [`Failure::Unavailable`].
    fn or_unavailable(self, what: impl fmt::Display) -> Result<T, Failure>;
    /// As [`Failure::Limit`].
    fn or_limit(self, what: impl fmt::Display) -> Result<T, Failure>;
    /// As [`Failure::Broken`].
    fn or_broken(self, what: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> OrFailure<T> for Result<T, E> {
    fn or_unavailable(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::Unavailable(format!("{what}: {error}")))
    }

    fn or_limit(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::Limit(format!("{what}: {error}")))
    }

    fn or_broken(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::Broken(format!("{what}: {error}")))
    }
}

/// What another program said, without the characters by which it colours a terminal or moves about.
pub(crate) fn quoted(words: &str) -> String {
    words.trim().replace(char::is_control, "\u{fffd}")
}

/// The last line that says something.
#[doc(hidden)]
pub fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    quoted(text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default())
}
