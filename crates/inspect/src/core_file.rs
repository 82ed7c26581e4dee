//! Core files: the memory of a process that has ended.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use daiko_core::inspect::Memory;
use object::Endianness;
use object::elf;
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};

use crate::mapping::MemoryMapping;
use crate::problem::InspectError;
use crate::registers::Registers;

/// Most bytes of the note with the mapped files.
const MOST_NOTE: usize = 64 << 20;

/// A part of the process's memory, and its place in a file.
#[derive(Debug)]
struct Part {
    range: Range<u64>,
    /// The place of its first byte.
    offset: u64,
}

/// A core file.
#[derive(Debug)]
pub(crate) struct CoreFile {
    file: File,
    /// The parts that the core file has, sorted.
    parts: Vec<Part>,
    /// The parts of mapped files, which a core file leaves out where they were not changed, sorted;
    /// with the index of the file.
    mapped: Vec<(Part, usize)>,
    /// The mapped files, where they can be opened.
    files: Vec<Option<File>>,
    /// The registers of the threads, by their ids.
    threads: HashMap<u32, Registers>,
}

impl CoreFile {
    /// Opens the file. Returns also the mappings of the process.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<MemoryMapping>), InspectError> {
        let failed = |error| InspectError::File { path: path.to_owned(), error };
        let no_core = || InspectError::NoCore { path: path.to_owned() };
        let file = File::open(path).map_err(failed)?;
        let cache = ReadCache::new(file.try_clone().map_err(failed)?);
        let header = elf::FileHeader64::<Endianness>::parse(&cache).map_err(|_| no_core())?;
        let endian = header.endian().map_err(|_| no_core())?;
        if header.e_type(endian) != elf::ET_CORE || header.e_machine(endian) != elf::EM_X86_64 {
            return Err(no_core());
        }
        let headers = header.program_headers(endian, &cache).map_err(|_| no_core())?;
        let (mut parts, mut names, mut threads) = (Vec::new(), Vec::new(), HashMap::new());
        for program in headers {
            let start = program.p_vaddr(endian);
            let range = start..start.saturating_add(program.p_filesz(endian));
            match program.p_type(endian) {
                elf::PT_LOAD if !range.is_empty() => {
                    parts.push(Part { range, offset: program.p_offset(endian) });
                }
                elf::PT_NOTE => {
                    let notes = program.notes(endian, &cache).map_err(|_| no_core())?;
                    for note in notes.into_iter().flat_map(|mut notes| {
                        std::iter::from_fn(move || notes.next().ok().flatten())
                    }) {
                        match note.n_type(endian) {
                            elf::NT_FILE if note.name() == b"CORE" => {
                                names = parse_mapped_files(note.desc()).ok_or_else(no_core)?;
                            }
                            elf::NT_PRSTATUS if note.name() == b"CORE" => {
                                threads.extend(Registers::parse_status(note.desc()));
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        parts.sort_by_key(|part| part.range.start);
        let (mut paths, mut mapped, mut mappings) = (Vec::<&str>::new(), Vec::new(), Vec::new());
        for (range, offset, name) in &names {
            let index = paths.iter().position(|path| path == name).unwrap_or_else(|| {
                paths.push(name);
                paths.len() - 1
            });
            mapped.push((Part { range: range.clone(), offset: *offset }, index));
            mappings.push(MemoryMapping {
                range: range.clone(),
                is_readable: true,
                is_writable: false,
                is_code: false,
                is_shared: false,
                file: String::new(),
                offset: *offset,
                path: name.clone(),
            });
        }
        mapped.sort_by_key(|(part, _)| part.range.start);
        let files = paths.iter().map(|path| File::open(PathBuf::from(path)).ok()).collect();
        Ok((CoreFile { file, parts, mapped, files, threads }, mappings))
    }

    /// Returns the registers of a thread.
    pub(crate) fn registers(&self, thread: u32) -> Option<Registers> {
        self.threads.get(&thread).copied()
    }
}

impl Memory for CoreFile {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let (mut at, mut rest) = (address, into);
        while !rest.is_empty() {
            let own = find(&self.parts, at, |part| &part.range);
            let found = own.map(|part| (part, Some(&self.file))).or_else(|| {
                let (part, index) = find(&self.mapped, at, |(part, _)| &part.range)?;
                Some((part, self.files[*index].as_ref()))
            });
            let Some((part, Some(file))) = found else { return false };
            let within = at - part.range.start;
            let here = usize::try_from(part.range.end - at).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at_mut(here);
            if file.read_exact_at(now, part.offset.saturating_add(within)).is_err() {
                return false;
            }
            at += here as u64;
            rest = later;
        }
        true
    }
}

/// Returns the item with `address` in its range, of a list that is sorted by the starts.
fn find<T>(items: &[T], address: u64, range: impl Fn(&T) -> &Range<u64>) -> Option<&T> {
    let after = items.partition_point(|item| range(item).start <= address);
    items[..after].last().filter(|item| range(item).contains(&address))
}

/// Parses the descriptor of a note with the mapped files: the number of files and the size of a
/// page, then for each file start, end and offset in pages, then the paths, each with a final zero.
/// `None`: it is malformed.
pub fn parse_mapped_files(descriptor: &[u8]) -> Option<Vec<(Range<u64>, u64, String)>> {
    if descriptor.len() > MOST_NOTE {
        return None;
    }
    let word = |index: usize| {
        let at = index.checked_mul(8)?;
        let bytes = descriptor.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let (count, page) = (usize::try_from(word(0)?).ok()?, word(1)?);
    let names_at = count.checked_mul(3)?.checked_add(2)?.checked_mul(8)?;
    let mut names = descriptor.get(names_at..)?.split(|&byte| byte == 0);
    (0..count)
        .map(|index| {
            let (start, end) = (word(2 + 3 * index)?, word(3 + 3 * index)?);
            let offset = word(4 + 3 * index)?.checked_mul(page)?;
            let name = String::from_utf8_lossy(names.next()?).into_owned();
            (start <= end).then_some((start..end, offset, name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(words: &[u64], names: &str) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend(names.as_bytes());
        bytes
    }

    #[test]
    fn mapped_files_are_parsed() {
        let note = descriptor(&[2, 4096, 0x1000, 0x3000, 0, 0x5000, 0x6000, 2], "/a\0/b c\0");
        let files = parse_mapped_files(&note).unwrap();
        let expected =
            [(0x1000..0x3000, 0, "/a".to_owned()), (0x5000..0x6000, 0x2000, "/b c".to_owned())];
        assert_eq!(files, expected);
    }

    #[test]
    fn malformed_notes_are_refused() {
        let whole = descriptor(&[2, 4096, 0x1000, 0x3000, 0, 0x5000, 0x6000, 2], "/a\0/b\0");
        for cut in 0..whole.len() - 4 {
            assert_eq!(parse_mapped_files(&whole[..cut]), None, "{cut}");
        }
        for words in [&[u64::MAX, 4096][..], &[1, u64::MAX, 1, 2, 3], &[1, 1, 2, 1, 0]] {
            assert_eq!(parse_mapped_files(&descriptor(words, "/a\0")), None, "{words:?}");
        }
    }

    #[test]
    fn an_address_is_found_in_its_range_only() {
        let ranges = [10..20, 30..40];
        let found = |address| find(&ranges, address, |range| range).cloned();
        assert_eq!([found(9), found(20), found(40)], [None, None, None]);
        assert_eq!((found(10), found(39)), (Some(10..20), Some(30..40)));
    }
}
