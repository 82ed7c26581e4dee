//! P4's IO tasks of set 1: writes of 256 bytes to random places of a region far larger than any
//! cache.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use daiko_sys::Scope;
use daiko_sys::memory::{self, Mapping};

use crate::kit::free_memory::available_bytes;
use crate::kit::pmem::{Library, PmemFile};
use crate::kit::{Failure, Memory, OrFailure, SplitMix64};

/// Bytes of a write: the write unit of P4's persistent memory.
pub(super) const BLOCK: usize = 256;

/// Memory that IO tasks write to. Each task has a region of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WriteTarget {
    /// Target of `pmem_memmove_persist` in a file there. `None` means `memmove` to DRAM.
    pub(super) memory: Option<Memory>,
    /// Bytes of a region, whole blocks.
    pub(super) bytes: usize,
}

impl WriteTarget {
    /// Checks that there is memory for this many tasks: a process that requests too much is killed.
    pub(super) fn check_room(&self, tasks: usize) -> Result<(), Failure> {
        if matches!(self.memory, Some(Memory::Dax(_))) {
            return Ok(());
        }
        let asked = self.bytes.saturating_mul(tasks) as u64;
        match available_bytes().filter(|&available| asked > available) {
            None => Ok(()),
            Some(available) => Err(Failure::Limit(format!(
                "{tasks} IO tasks need {} MiB, but {} MiB of memory are free: end other programs",
                asked >> 20,
                available >> 20
            ))),
        }
    }

    /// Allocates a region and touches all of its pages.
    pub(super) fn writer(&self, seed: u64) -> Result<Writer, Failure> {
        let region = match &self.memory {
            None => Region::Dram(dram(self.bytes)?),
            Some(memory) => Region::Pmem(Library::find()?.map(memory, self.bytes)?),
        };
        let blocks = (self.bytes / BLOCK) as u64;
        // Not zero: the region is all zeros, and some processors write no zeros back over zeros.
        let data = [seed as u8 | 1; BLOCK];
        Ok(Writer { region, blocks, random: SplitMix64(seed), data })
    }
}

fn dram(bytes: usize) -> Result<Mapping, Failure> {
    let asked = format!("{bytes} bytes to write to");
    let region = Mapping::new(bytes, Scope::Private).or_limit(&asked)?;
    memory::populate(region.start(), region.len()).or_limit(&asked)?;
    Ok(region)
}

/// A region and the data that is written to it.
pub(super) struct Writer {
    region: Region,
    blocks: u64,
    random: SplitMix64,
    data: [u8; BLOCK],
}

enum Region {
    Dram(Mapping),
    Pmem(PmemFile),
}

impl Writer {
    /// Writes until `end`, at least once. Returns the number of writes.
    pub(super) fn write_until(&mut self, end: &AtomicBool) -> u64 {
        let data = &self.data;
        let place = || self.random.below(self.blocks) as usize * BLOCK;
        match &self.region {
            Region::Dram(region) => until(end, place, |offset| {
                // SAFETY: `below` keeps the block within the region, which has no other user; the
                // data lie elsewhere.
                unsafe {
                    let to = region.start().add(offset);
                    // Opaque, because the compiler would inline a copy of known length.
                    libc::memmove(to.as_ptr().cast(), data.as_ptr().cast(), black_box(BLOCK));
                }
            }),
            Region::Pmem(file) => until(end, place, |offset| file.persist(offset, data)),
        }
    }
}

fn until(end: &AtomicBool, mut place: impl FnMut() -> usize, write: impl Fn(usize)) -> u64 {
    let mut count = 0;
    loop {
        write(place());
        count += 1;
        if end.load(Ordering::Relaxed) {
            return count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::pmem::require_libpmem;
    use super::*;

    const BYTES: usize = 1 << 20;

    fn target(memory: Option<Memory>) -> WriteTarget {
        WriteTarget { memory, bytes: BYTES }
    }

    /// Includes the first task: a block of zeros could not be distinguished from the region.
    #[test]
    fn a_write_changes_one_whole_block_of_the_region() {
        for seed in [0, 1, 7, 255, 256] {
            let mut writer = target(None).writer(seed).expect("a region");
            assert_eq!(writer.write_until(&AtomicBool::new(true)), 1);
            let Region::Dram(region) = &writer.region else { unreachable!("asked for") };
            // SAFETY: the mapping has this length, is alive, and is not written to during the
            // borrow.
            let bytes = unsafe { std::slice::from_raw_parts(region.start().as_ptr(), BYTES) };
            let written = |block: &&[u8]| block.iter().all(|byte| *byte != 0);
            assert_eq!(bytes.chunks(BLOCK).filter(written).count(), 1, "{seed}");
            assert_eq!(bytes.iter().filter(|byte| **byte != 0).count(), BLOCK, "{seed}");
        }
    }

    #[test]
    fn tasks_write_to_other_places() {
        let places = [0, 1].map(|seed| {
            let mut writer = target(None).writer(seed).expect("a region");
            (0..9).map(|_| writer.random.below(writer.blocks)).collect::<Vec<_>>()
        });
        assert_ne!(places[0], places[1]);
    }

    #[test]
    fn persistent_memory_that_is_emulated_takes_writes() {
        if let Err(skip) = require_libpmem() {
            println!("skipped: persistent_memory_that_is_emulated_takes_writes: {skip}");
            return;
        }
        let mut writer = target(Some(Memory::Emulated)).writer(7).expect("a region");
        assert_eq!(writer.write_until(&AtomicBool::new(true)), 1);
    }

    /// Error of an attempt that is refused, or `None` without libpmem.
    fn refused(memory: Memory, bytes: usize) -> Option<String> {
        match require_libpmem() {
            Ok(()) => {
                let result = WriteTarget { memory: Some(memory), bytes }.writer(1);
                Some(result.err().expect("refused").to_string())
            }
            Err(skip) => {
                println!("skipped: {skip}");
                None
            }
        }
    }

    #[test]
    fn a_full_file_system_is_told_with_the_remedy() {
        let Some(told) = refused(Memory::Emulated, 1 << 50) else { return };
        assert!(told.starts_with("cannot have 1125899906842624 bytes in /dev/shm: "), "{told}");
        assert!(told.ends_with("; make room there, or name another folder with --pmem"), "{told}");
    }

    #[test]
    fn a_folder_that_is_not_persistent_memory_is_refused() {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let Some(told) = refused(Memory::Dax(folder.path().into()), BYTES) else { return };
        assert!(told.contains("is not persistent memory: name a folder"), "{told}");
        let gone = Path::new("/nonexistent");
        let told = refused(Memory::Dax(gone.into()), BYTES).expect("the library is there");
        assert!(told.contains("/nonexistent: ") && told.contains("--pmem"), "{told}");
    }

    #[test]
    fn more_than_there_is_of_memory_is_refused_before_it_is_asked_for() {
        assert_eq!(target(None).check_room(2), Ok(()));
        let told =
            WriteTarget { memory: None, bytes: 1 << 50 }.check_room(2).unwrap_err().to_string();
        assert!(told.starts_with("2 IO tasks need 2147483648 MiB, but "), "{told}");
    }
}
