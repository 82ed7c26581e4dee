//! Reasons why a point has no value: it was skipped, or it failed.

use std::error::Error;
use std::fmt;

use daiko::{BuildError, JoinError, SpawnError};
use serde::{Deserialize, Serialize};

/// A point that is left out, with the reason for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// One line: the missing requirement and, if there is one, the remedy.
    pub reason: String,
    /// The Debian packages that are missing, which the reason names.
    #[serde(default)]
    pub packages: Vec<String>,
}

impl Skip {
    /// Creates a skip for `reason`, one line without a full stop.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), packages: Vec::new() }
    }

    /// Creates a skip for `reason`, with the remedy to install Debian `packages`, separated by
    /// spaces.
    ///
    /// # Examples
    ///
    /// ```
    /// let skip = daiko_lab::Skip::without("no cc", "gcc libc6-dev");
    /// assert_eq!(skip.reason, "no cc (Debian: apt install gcc libc6-dev)");
    /// assert_eq!(skip.packages, ["gcc", "libc6-dev"]);
    /// ```
    pub fn without(reason: impl fmt::Display, packages: &str) -> Self {
        let reason = format!("{reason} (Debian: apt install {packages})");
        Self { reason, packages: packages.split_whitespace().map(str::to_owned).collect() }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// A sample that was started and gave no value. Each is reported in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// A requirement of the sample is missing (a library, a feature of the kernel): its name, and
    /// the remedy.
    Unavailable(String),
    /// A limit of the system was reached: its name, and the way to raise it.
    Limit(String),
    /// No counted operation completed in the time of a sample.
    TooShort(String),
    /// A thread read another datum than that of this lap.
    WrongDatum {
        /// The datum that the lap sent.
        expected: u64,
        /// The datum that arrived.
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

/// Turns an error into a failure that names the failed operation.
pub(crate) trait OrFailure<T> {
    /// Returns [`Failure::Unavailable`] for an error.
    fn or_unavailable(self, action: impl fmt::Display) -> Result<T, Failure>;
    /// Returns [`Failure::Limit`] for an error.
    fn or_limit(self, action: impl fmt::Display) -> Result<T, Failure>;
    /// Returns [`Failure::Broken`] for an error.
    fn or_broken(self, action: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> OrFailure<T> for Result<T, E> {
    fn or_unavailable(self, action: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::Unavailable(format!("{action}: {error}")))
    }

    fn or_limit(self, action: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::Limit(format!("{action}: {error}")))
    }

    fn or_broken(self, action: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::Broken(format!("{action}: {error}")))
    }
}

/// Quotes another program's output without control characters, which could colour a terminal or
/// move its cursor.
pub(crate) fn quoted(words: &str) -> String {
    words.trim().replace(char::is_control, "\u{fffd}")
}

/// Returns the last line that is not blank.
#[doc(hidden)]
pub fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    quoted(text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default())
}
