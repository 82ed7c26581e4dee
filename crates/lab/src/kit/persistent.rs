//! What the persistent memory of a run is: a folder of a DAX file system, or DRAM that passes for it.

use std::path::{Path, PathBuf};

use super::case::Params;

/// Where files are made that pass for persistent memory.
const EMULATED: &str = "/dev/shm";

/// Where persistent data lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// In that folder, of persistent memory.
    Dax(PathBuf),
    /// In DRAM: flushes and fences are made, but end at DRAM's speed.
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

    /// `params` and what says which memory it is.
    pub(crate) fn tell(&self, params: Params) -> Params {
        match self {
            Self::Dax(folder) => {
                params.with("memory", "dax").with("folder", &*folder.to_string_lossy())
            }
            Self::Emulated => params.with("memory", "emulated"),
        }
    }

    /// What [`tell`](Self::tell) told.
    pub(crate) fn from_params(params: &Params) -> Option<Self> {
        match (params.text("memory")?, params.text("folder")) {
            ("dax", Some(folder)) => Some(Self::Dax(folder.into())),
            ("emulated", None) => Some(Self::Emulated),
            _ => None,
        }
    }
}
