//! How a description is read.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Cache, CacheKind, Cpu, Topology};
use crate::cpu::{self, CpuSet};

/// Why there is no topology; its message is one line and names the file.
#[derive(Debug)]
#[non_exhaustive]
pub enum TopologyError {
    /// A file that all kernels have is missing or cannot be read.
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
        /// What it says.
        text: String,
    },
    /// None of the allowed CPUs is online.
    NoCpu,
    /// The kernel does not say which CPUs are allowed.
    Affinity(io::Error),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { file, error } => {
                write!(
                    f,
                    "cannot read {}: {error}: mount sysfs, or name a root that has it",
                    file.display()
                )
            }
            Self::Malformed { file, text } => {
                write!(
                    f,
                    "{} has {text:?}, which is no CPU list or number: it is not of sysfs",
                    file.display()
                )
            }
            Self::NoCpu => {
                f.write_str("none of the allowed CPUs is online: allow another by taskset")
            }
            Self::Affinity(error) => write!(f, "cannot read the affinity mask: {error}"),
        }
    }
}

impl std::error::Error for TopologyError {}

impl Topology {
    /// Of this machine; allowed are the CPUs of the calling thread.
    ///
    /// # Errors
    ///
    /// [`TopologyError`] where sysfs is not mounted, for example.
    pub fn read() -> Result<Self, TopologyError> {
        let allowed = cpu::allowed().map_err(TopologyError::Affinity)?;
        Self::read_in(Path::new("/"), Some(&allowed))
    }

    /// As described by the files under `root`; all online CPUs are allowed without `allowed`.
    ///
    /// # Errors
    ///
    /// [`TopologyError`] for a description that is incomplete or malformed.
    pub fn read_in(root: &Path, allowed: Option<&CpuSet>) -> Result<Self, TopologyError> {
        let _ = (root, allowed, fs::read_to_string::<&Path>, CacheKind::Data);
        let _: Option<(Cache, Cpu)> = None;
        todo!()
    }
}
