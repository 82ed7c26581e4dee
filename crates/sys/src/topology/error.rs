//! What can be wrong with a description.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why there is no topology; its message is one line and names the file.
#[derive(Debug)]
#[non_exhaustive]
pub enum TopologyError {
    /// A file that all kernels have is missing, or a file cannot be read.
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file says something that is no list of CPUs, or no number.
    Malformed {
        /// Which.
        file: PathBuf,
        /// What it says; only how that begins, if it is long.
        text: String,
    },
    /// CPUs do not agree on who shares a core or a cache, or one is in two nodes.
    Contradictory {
        /// Whose list others contradict.
        file: PathBuf,
    },
    /// The set of online CPUs changed, as often as it was read.
    Changing,
    /// None of the allowed CPUs is online.
    NoCpu,
    /// The kernel does not say which CPUs are allowed.
    Affinity(io::Error),
}

/// Paths are quoted where they hold control characters, so that it stays one line.
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
                "CPUs go online or offline all the time: try again once nobody switches them",
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
