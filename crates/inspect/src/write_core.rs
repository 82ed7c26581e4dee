//! Core files of processes that go on: with the stacks of fibers, which `gcore` leaves out, as it
//! cannot read the guards between them.
//!
//! The file has the notes that debuggers need, and a segment for each mapping. Pages that are not
//! dumped are holes in the file: pages that were never written, guards, and unchanged pages of
//! mapped files. A hole takes no room on the disk and reads as zeros.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use daiko_core::inspect::{Memory, Span};
use daiko_sys::memory::page_size;
use daiko_sys::process::{ProcessMemory, RegisterSet, StoppedProcess};
use object::elf;

use crate::mapping::{MemoryMapping, parse_maps};
use crate::problem::InspectError;
use crate::registers::{STATUS_REGISTERS, STATUS_THREAD};

/// Bytes of an ELF header, of a program header and of a section header.
const HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
const SECTION_HEADER: u64 = 64;
/// Bytes that are read at once.
const CHUNK: u64 = 1 << 20;
/// Bits of an entry of `/proc/PID/pagemap`: in memory, in swap, a page of a file.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const OF_FILE: u64 = 1 << 61;

/// The contents of a core file that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Bytes of memory in the file, without holes.
    pub bytes: u64,
    /// Number of threads.
    pub threads: usize,
}

/// Writes a core file of a process, which stops meanwhile and goes on afterwards.
///
/// # Errors
///
/// The process may not be traced, or has gone; or the file cannot be written.
pub fn write_core(process: u32, path: &Path) -> Result<Written, InspectError> {
    let stopped = StoppedProcess::stop(process)
        .map_err(|error| InspectError::unstoppable(process, &error))?;
    let written = Core::new(process, &stopped).and_then(|core| core.write(path));
    let bytes = written.map_err(|error| InspectError::File { path: path.to_owned(), error })?;
    Ok(Written { bytes, threads: stopped.threads().count() })
}

/// The parts of a core file.
struct Core {
    process: u32,
    notes: Vec<u8>,
    mappings: Vec<MemoryMapping>,
}

impl Core {
    fn new(process: u32, stopped: &StoppedProcess) -> io::Result<Self> {
        let read = |name: &str| fs::read(format!("/proc/{process}/{name}"));
        let mappings = parse_maps(&String::from_utf8_lossy(&read("maps")?));
        let stat = String::from_utf8_lossy(&read("stat")?).into_owned();
        let mut notes = Notes::default();
        // Debuggers take the first thread for the current one.
        let mut threads: Vec<u32> = stopped.threads().collect();
        threads.sort_by_key(|&thread| thread != process);
        for (at, &thread) in threads.iter().enumerate() {
            let Some(general) = stopped.registers(thread, RegisterSet::General) else { continue };
            notes.add(b"CORE", elf::NT_PRSTATUS, &status(thread, &stat, &general));
            if at == 0 {
                notes.add(
                    b"CORE",
                    elf::NT_PRPSINFO,
                    &information(process, &stat, &read("cmdline")?),
                );
                notes.add(b"CORE", elf::NT_AUXV, &read("auxv")?);
                notes.add(b"CORE", elf::NT_FILE, &files(&mappings));
            }
            if let Some(floating) = stopped.registers(thread, RegisterSet::Floating) {
                notes.add(b"CORE", elf::NT_PRFPREG, &floating);
            }
            if let Some(extended) = stopped.registers(thread, RegisterSet::Extended) {
                notes.add(b"LINUX", elf::NT_X86_XSTATE, &extended);
            }
        }
        // The kernel's page for system calls cannot be read, and is the same in all processes.
        let mappings = mappings.into_iter().filter(|mapping| mapping.path != "[vsyscall]");
        Ok(Core { process, notes: notes.0, mappings: mappings.collect() })
    }

    /// Writes the file; returns the bytes of memory in it.
    fn write(&self, path: &Path) -> io::Result<u64> {
        let mut file = File::options().write(true).create_new(true).open(path)?;
        let (count, page) = (self.mappings.len() as u64 + 1, page_size() as u64);
        // More headers than the ELF header can tell are told by a section header.
        let has_section = count >= u64::from(elf::PN_XNUM);
        let sections_at = HEADER + count * PROGRAM_HEADER;
        let notes_at = sections_at + if has_section { SECTION_HEADER } else { 0 };
        let memory_at = (notes_at + self.notes.len() as u64).next_multiple_of(page);
        let mut head = elf_header(count, has_section.then_some(sections_at));
        head.extend(program_header(elf::PT_NOTE, 0, [notes_at, 0, self.notes.len() as u64, 0], 4));
        let pages = File::open(format!("/proc/{}/pagemap", self.process)).ok();
        let (mut at, mut parts) = (memory_at, Vec::new());
        for mapping in &self.mappings {
            let (start, len) = (mapping.range.start, mapping.range.end - mapping.range.start);
            let dumped = dumped_bytes(mapping, pages.as_ref());
            let place = [at, start, dumped, len];
            head.extend(program_header(elf::PT_LOAD, flags_of(mapping), place, page));
            parts.push((mapping, dumped, at));
            at += dumped;
        }
        if has_section {
            head.extend(section_header(count));
        }
        head.extend(&self.notes);
        file.write_all(&head)?;
        file.set_len(at)?;
        let mut bytes = 0;
        for (mapping, dumped, at) in parts {
            bytes += self.write_pages(mapping, dumped, pages.as_ref(), &file, at)?;
        }
        Ok(bytes)
    }

    /// Writes the first `dumped` bytes of a mapping to their places, from `at` on, but for holes;
    /// returns the bytes that are no holes.
    fn write_pages(
        &self,
        mapping: &MemoryMapping,
        dumped: u64,
        pages: Option<&File>,
        file: &File,
        at: u64,
    ) -> io::Result<u64> {
        let memory = ProcessMemory { process: self.process };
        let (start, page, mut bytes) = (mapping.range.start, page_size() as u64, 0);
        // A page of a file is there without having been touched.
        let pages = pages.filter(|_| mapping.path.is_empty() && !mapping.is_shared);
        for from in (start..start + dumped).step_by(CHUNK as usize) {
            let end = (start + dumped).min(from + CHUNK);
            let entries = pages.and_then(|pages| entries_of(pages, from / page, end / page));
            let wanted = |index: usize| entries.as_ref().is_none_or(|all| is_own(all[index]));
            let count = ((end - from) / page) as usize;
            let mut index = 0;
            while index < count {
                let run = (index..count).take_while(|&index| wanted(index)).count();
                if run == 0 {
                    index += 1;
                    continue;
                }
                let first = from + index as u64 * page;
                let span = Span { start: first, len: run * page as usize };
                let read = memory.read_up_to(span);
                let whole = read.len() / page as usize;
                for (number, page_bytes) in read.chunks_exact(page as usize).enumerate() {
                    if page_bytes.iter().any(|&byte| byte != 0) {
                        let place = at + (first - start) + number as u64 * page;
                        file.write_all_at(page_bytes, place)?;
                        bytes += page;
                    }
                }
                // Behind the pages that were read lies a guard, if that was not all.
                index += whole + usize::from(whole < run);
            }
        }
        Ok(bytes)
    }
}

/// Returns the number of bytes of the mapping that the file has, from its beginning on. Readers
/// take the others from the mapped file.
fn dumped_bytes(mapping: &MemoryMapping, pages: Option<&File>) -> u64 {
    let page = page_size() as u64;
    let len = mapping.range.end - mapping.range.start;
    // Devices may do anything when they are read.
    let is_device = mapping.path.starts_with("/dev/")
        && !["/dev/shm/", "/dev/zero"].iter().any(|memory| mapping.path.starts_with(memory));
    let is_clock = mapping.path.starts_with("[vvar");
    let is_of_file = mapping.path.starts_with('/');
    match () {
        () if !mapping.is_readable || is_device || is_clock => 0,
        () if !is_of_file || mapping.is_writable => len,
        () if mapping.is_shared => 0,
        // Written by the loader, and protected since.
        () if has_own_pages(mapping, pages) => len,
        // The first page of an image, so that the file is recognised.
        () if mapping.offset == 0 => len.min(page),
        () => 0,
    }
}

/// Returns true if a page of a mapped file differs from the file, or may do so.
fn has_own_pages(mapping: &MemoryMapping, pages: Option<&File>) -> bool {
    let page = page_size() as u64;
    let range = &mapping.range;
    let entries = pages.and_then(|pages| entries_of(pages, range.start / page, range.end / page));
    entries.is_none_or(|entries| entries.into_iter().any(is_own))
}

/// Returns true if the page is in memory and in no file, by its entry in the page map.
fn is_own(entry: u64) -> bool {
    entry & (PRESENT | SWAPPED) != 0 && entry & OF_FILE == 0
}

fn entries_of(pages: &File, from: u64, to: u64) -> Option<Vec<u64>> {
    let mut bytes = vec![0; (to - from) as usize * 8];
    pages.read_exact_at(&mut bytes, from * 8).ok()?;
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("a word"));
    Some(bytes.chunks_exact(8).map(word).collect())
}

fn flags_of(mapping: &MemoryMapping) -> u32 {
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    flag(mapping.is_readable, elf::PF_R)
        | flag(mapping.is_writable, elf::PF_W)
        | flag(mapping.is_code, elf::PF_X)
}

/// Bytes of a struct of the kernel, written by their offsets.
struct Record(Vec<u8>);

impl Record {
    fn new(bytes: usize) -> Self {
        Record(vec![0; bytes])
    }

    fn put(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }
}

fn elf_header(count: u64, sections_at: Option<u64>) -> Vec<u8> {
    let programs = u16::try_from(count).unwrap_or(elf::PN_XNUM);
    let sections = u16::from(sections_at.is_some());
    Record::new(HEADER as usize)
        .put(0, b"\x7fELF\x02\x01\x01")
        .put(16, &elf::ET_CORE.to_le_bytes())
        .put(18, &elf::EM_X86_64.to_le_bytes())
        .put(20, &1_u32.to_le_bytes())
        .put(32, &HEADER.to_le_bytes())
        .put(40, &sections_at.unwrap_or(0).to_le_bytes())
        .put(52, &(HEADER as u16).to_le_bytes())
        .put(54, &(PROGRAM_HEADER as u16).to_le_bytes())
        .put(56, &programs.to_le_bytes())
        .put(58, &(SECTION_HEADER as u16 * sections).to_le_bytes())
        .put(60, &sections.to_le_bytes())
        .0
}

/// `[offset, address, bytes in the file, bytes in memory]`.
fn program_header(kind: u32, flags: u32, place: [u64; 4], align: u64) -> Vec<u8> {
    let [offset, address, in_file, in_memory] = place;
    Record::new(PROGRAM_HEADER as usize)
        .put(0, &kind.to_le_bytes())
        .put(4, &flags.to_le_bytes())
        .put(8, &offset.to_le_bytes())
        .put(16, &address.to_le_bytes())
        .put(32, &in_file.to_le_bytes())
        .put(40, &in_memory.to_le_bytes())
        .put(48, &align.to_le_bytes())
        .0
}

/// The section header 0, which tells the number of program headers.
fn section_header(count: u64) -> Vec<u8> {
    Record::new(SECTION_HEADER as usize).put(44, &(count as u32).to_le_bytes()).0
}

/// The notes of a core file.
#[derive(Default)]
struct Notes(Vec<u8>);

impl Notes {
    fn add(&mut self, owner: &[u8], kind: u32, descriptor: &[u8]) {
        for word in [owner.len() as u32 + 1, descriptor.len() as u32, kind] {
            self.0.extend(word.to_le_bytes());
        }
        for part in [&[owner, b"\0"].concat(), descriptor] {
            self.0.extend(part);
            self.0.resize(self.0.len().next_multiple_of(4), 0);
        }
    }
}

/// Returns a field of `/proc/PID/stat`, counted from 1 as in its manual page; 0: it is no number.
fn stat_field(stat: &str, field: usize) -> u32 {
    let behind_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    behind_name.split(' ').nth(field - 3).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The kernel's `struct elf_prstatus`.
fn status(thread: u32, stat: &str, registers: &[u8]) -> Vec<u8> {
    let mut record = Record::new(336).put(STATUS_THREAD, &thread.to_le_bytes());
    for (at, field) in [(36, 4), (40, 5), (44, 6)] {
        record = record.put(at, &stat_field(stat, field).to_le_bytes());
    }
    let registers = &registers[..registers.len().min(27 * 8)];
    record.put(STATUS_REGISTERS, registers).put(328, &1_u32.to_le_bytes()).0
}

/// The kernel's `struct elf_prpsinfo`.
fn information(process: u32, stat: &str, command: &[u8]) -> Vec<u8> {
    let name = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
    let name = name.map_or(&b""[..], |(name, _)| name.as_bytes());
    let command: Vec<u8> =
        command.iter().map(|&byte| if byte == 0 { b' ' } else { byte }).take(79).collect();
    let mut record = Record::new(136).put(24, &process.to_le_bytes());
    for (at, field) in [(28, 4), (32, 5), (36, 6)] {
        record = record.put(at, &stat_field(stat, field).to_le_bytes());
    }
    record.put(40, &name[..name.len().min(15)]).put(56, &command).0
}

/// The note of mapped files.
fn files(mappings: &[MemoryMapping]) -> Vec<u8> {
    let page = page_size() as u64;
    let files: Vec<_> = mappings.iter().filter(|mapping| mapping.path.starts_with('/')).collect();
    let mut words = vec![files.len() as u64, page];
    for mapping in &files {
        words.extend([mapping.range.start, mapping.range.end, mapping.offset / page]);
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for mapping in files {
        bytes.extend(mapping.path.as_bytes());
        bytes.push(0);
    }
    bytes
}
