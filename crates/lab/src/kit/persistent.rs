//! The persistent memory of a run: a folder of a DAX file system, or an emulation in DRAM.

use std::path::{Path, PathBuf};

use super::case::Params;

/// Folder of the files that emulate persistent memory.
const EMULATED: &str = "/dev/shm";

/// Place of persistent data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// A folder of persistent memory.
    Dax(PathBuf),
    /// DRAM: flushes and fences are executed, but end at DRAM's speed.
    Emulated,
}

impl Memory {
    pub(crate) fn new(folder: Option<&Path>) -> Self {
        folder.map_or(Self::Emulated, |folder| Self::Dax(folder.into()))
    }

    pub(crate) fn folder(&self) -> &Path {
        match self {
            Self::Dax(folder) => folder,
            Self::Emulated => Path::new(EMULATED),
        }
    }

    /// Adds the parameters that describe the memory to `params`.
    pub(crate) fn tell(&self, params: Params) -> Params {
        match self {
            Self::Dax(folder) => {
                params.with("memory", "dax").with("folder", &*folder.to_string_lossy())
            }
            Self::Emulated => params.with("memory", "emulated"),
        }
    }

    /// Reads the parameters that [`tell`](Self::tell) added.
    pub(crate) fn from_params(params: &Params) -> Option<Self> {
        match (params.text("memory")?, params.text("folder")) {
            ("dax", Some(folder)) => Some(Self::Dax(folder.into())),
            ("emulated", None) => Some(Self::Emulated),
            _ => None,
        }
    }
}
