//! Errors of a description.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Reason for the lack of a topology. Its message is one line and names the file.
#[derive(Debug)]
#[non_exhaustive]
pub enum TopologyError {
    /// A file that all kernels have is missing, or a file cannot be read.
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error of reading it.
        error: io::Error,
    },
    /// A file contains a text that is neither a list of CPUs nor a number.
    Malformed {
        /// The file.
        file: PathBuf,
        /// The text, cut if it is long.
        text: String,
    },
    /// CPUs disagree about the members of a core or a cache, or a CPU is in two nodes.
    Contradictory {
        /// The file that other files contradict.
        file: PathBuf,
    },
    /// The set of online CPUs changed during every attempt to read it.
    Changing,
    /// None of the allowed CPUs is online.
    NoCpu,
    /// The kernel does not report the allowed CPUs.
    Affinity(io::Error),
}

/// Paths with control characters are quoted, so that the message stays one line.
impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { file, error } => write!(
                f,
                "cannot read {}: {error}: mount sysfs, or name a root that has it",
                line(file)
            ),
            Self::Malformed { file, text } => write!(
                f,
                "{} has {text:?}, where a CPU list or a number belongs: it is not of sysfs",
                line(file)
            ),
            Self::Contradictory { file } => {
                write!(f, "{} contradicts other files: copy all of sysfs at one time", line(file))
            }
            Self::Changing => f.write_str(
                "CPUs go online or offline all the time: try again once they stay as they are",
            ),
            Self::NoCpu => {
                f.write_str("none of the allowed CPUs is online: allow another by taskset")
            }
            Self::Affinity(error) => write!(f, "cannot read the affinity mask: {error}"),
        }
    }
}

fn line(file: &Path) -> String {
    let name = file.display().to_string();
    if name.contains(char::is_control) { format!("{name:?}") } else { name }
}

impl Error for TopologyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } | Self::Affinity(error) => Some(error),
            _ => None,
        }
    }
}
