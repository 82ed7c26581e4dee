//! The memory of a process: live, or in a core file.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use daiko_core::inspect::{Image, Memory, Reader, Span, plain_text};
use daiko_sys::process::{self, ProcessMemory, RegisterSet, StoppedProcess};

use crate::core_file::CoreFile;
use crate::mapping::{MemoryMapping, parse_maps};
use crate::problem::InspectError;
use crate::registers::Registers;

/// Type of the note of GNU with the build id.
const BUILD_ID: u32 = 3;

/// An executable or a library of the process.
#[derive(Debug)]
pub struct LoadedFile {
    /// The path, as the process knows it.
    pub path: String,
    /// The image in memory.
    pub image: Image,
    /// The build id; `None`: it has none.
    pub build_id: Option<Vec<u8>>,
    /// The address of the table of runtimes; `None`: it has none.
    pub table: Option<u64>,
}

/// A process that can be read.
#[derive(Debug)]
pub struct Subject {
    memory: SubjectMemory,
    /// The process, as messages name it.
    name: String,
    mappings: Vec<MemoryMapping>,
    files: Vec<LoadedFile>,
    /// The process's threads, while they are stopped.
    stopped: RefCell<Option<StoppedProcess>>,
}

/// The memory of a [`Subject`].
#[derive(Debug)]
enum SubjectMemory {
    Live(ProcessMemory),
    Core(CoreFile),
}

impl Memory for SubjectMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        match self {
            SubjectMemory::Live(memory) => memory.read(address, into),
            SubjectMemory::Core(core) => core.read(address, into),
        }
    }

    fn read_each(&self, ranges: &[Span], into: &mut [u8]) -> usize {
        match self {
            SubjectMemory::Live(memory) => memory.read_each(ranges, into),
            SubjectMemory::Core(core) => core.read_each(ranges, into),
        }
    }
}

impl Memory for &Subject {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        self.memory.read(address, into)
    }

    fn read_each(&self, ranges: &[Span], into: &mut [u8]) -> usize {
        self.memory.read_each(ranges, into)
    }
}

impl Subject {
    /// Opens a live process, which goes on.
    ///
    /// # Errors
    ///
    /// There is no such process, or the caller may not trace it.
    pub fn process(process: u32) -> Result<Self, InspectError> {
        let refused = |error| InspectError::unreadable(process, &error);
        let text = fs::read(format!("/proc/{process}/maps")).map_err(refused)?;
        let mappings = parse_maps(&String::from_utf8_lossy(&text));
        // A process that has ended, but was not waited for, has no mappings.
        let first = mappings.iter().find(|mapping| mapping.is_readable);
        let first = first.ok_or(InspectError::Gone { process })?;
        match process::read_memory(process, first.range.start, &mut [0]) {
            Err(error) if error.raw_os_error() != Some(BAD_ADDRESS) => return Err(refused(error)),
            _ => {}
        }
        let memory = SubjectMemory::Live(ProcessMemory { process });
        Ok(Self::new(memory, format!("process {process}"), mappings))
    }

    /// Opens a core file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no core file.
    pub fn core(path: &Path) -> Result<Self, InspectError> {
        let (core, mappings) = CoreFile::open(path)?;
        let memory = SubjectMemory::Core(core);
        Ok(Self::new(memory, path.display().to_string(), mappings))
    }

    fn new(memory: SubjectMemory, name: String, mappings: Vec<MemoryMapping>) -> Self {
        let firsts = mappings.iter().filter(|mapping| {
            mapping.offset == 0 && mapping.is_readable && !mapping.path.is_empty()
        });
        let files = firsts.filter_map(|mapping| {
            let image = Image::read(&memory, mapping.range.start)?;
            let build_id =
                image.notes(&memory, b"GNU\0", BUILD_ID).next().map(|(_, descriptor)| descriptor);
            let table = image.table(&memory);
            Some(LoadedFile { path: mapping.path.clone(), image, build_id, table })
        });
        let files = files.collect();
        Subject { memory, name, mappings, files, stopped: RefCell::new(None) }
    }

    /// Stops the threads of a live process until [`resume`](Self::resume), so that all that is read
    /// is of one moment, and its running fibers have stacks. Those in a core file stand still.
    ///
    /// # Errors
    ///
    /// The process may not be traced, or another one traces it, or it has ended.
    pub fn stop(&self) -> Result<(), InspectError> {
        if let SubjectMemory::Live(ProcessMemory { process }) = self.memory {
            let stopped = StoppedProcess::stop(process)
                .map_err(|error| InspectError::unstoppable(process, &error))?;
            *self.stopped.borrow_mut() = Some(stopped);
        }
        Ok(())
    }

    /// Lets the process go on, if [`stop`](Self::stop) has stopped it.
    pub fn resume(&self) {
        self.stopped.take();
    }

    /// Returns the registers of a thread that stands still.
    pub(crate) fn registers(&self, thread: u32) -> Option<Registers> {
        match &self.memory {
            SubjectMemory::Live(_) => {
                let stopped = self.stopped.borrow();
                Registers::parse(&stopped.as_ref()?.registers(thread, RegisterSet::General)?)
            }
            SubjectMemory::Core(core) => core.registers(thread),
        }
    }

    /// Returns the process, as messages name it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the mappings.
    pub fn mappings(&self) -> &[MemoryMapping] {
        &self.mappings
    }

    /// Returns the mapping of a file that the address lies in, if other processes may see it as
    /// well, and the offset in that file.
    pub fn place_in_file(&self, address: u64) -> Option<(&MemoryMapping, u64)> {
        let after = self.mappings.partition_point(|mapping| mapping.range.start <= address);
        let mapping = self.mappings[..after].last()?;
        let is_there = mapping.is_shared && mapping.range.contains(&address);
        is_there.then(|| (mapping, mapping.offset + (address - mapping.range.start)))
    }

    /// Returns the executables and libraries.
    pub fn files(&self) -> &[LoadedFile] {
        &self.files
    }

    /// Returns a reader for each table of runtimes: one for each release of the runtime.
    ///
    /// # Errors
    ///
    /// There is no table, or the only one is refused.
    pub fn readers(&self) -> Result<Vec<Reader<&Self>>, InspectError> {
        let (mut readers, mut refusal) = (Vec::new(), None);
        for table in self.files.iter().filter_map(|file| file.table) {
            match Reader::new(self, table) {
                Ok(reader) => readers.push(reader),
                Err(refused) => refusal = Some(refused),
            }
        }
        let subject = || self.name.clone();
        match refusal {
            _ if !readers.is_empty() => Ok(readers),
            Some(refused) => Err(InspectError::Table { subject: subject(), refused }),
            None => Err(InspectError::NoRuntime { subject: subject() }),
        }
    }

    /// Returns paths under which the file may be found from here, the best one first.
    pub(crate) fn paths_of(&self, file: &LoadedFile) -> Vec<PathBuf> {
        let path = file.path.trim_end_matches(" (deleted)");
        match &self.memory {
            SubjectMemory::Live(ProcessMemory { process }) => {
                // The process may have another root.
                let rooted = format!("/proc/{process}/root{path}");
                let mut paths = vec![PathBuf::from(rooted), PathBuf::from(path)];
                if self.files.first().is_some_and(|first| first.path == file.path) {
                    // Also if it has been deleted or replaced.
                    paths.push(PathBuf::from(format!("/proc/{process}/exe")));
                }
                paths
            }
            SubjectMemory::Core(_) => vec![PathBuf::from(path)],
        }
    }
}

/// Returns the name of the command that a process runs, as the kernel has it; empty if the process
/// has ended.
pub fn command_of(process: u32) -> String {
    let name = fs::read(format!("/proc/{process}/comm")).unwrap_or_default();
    plain_text(name.trim_ascii_end())
}

/// `EFAULT`: the caller may read the process, but not that address.
const BAD_ADDRESS: i32 = 14;
