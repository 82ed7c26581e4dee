//! The facts of an ELF file by which a program's threads can be taken over, or not.
//!
//! All are read as the kernel and the dynamic linker read them: from the program headers and the
//! dynamic section. Section headers play no part, as a stripped program may lack them. Any file may
//! be given, so every offset is checked, every table has a bound, and no name is copied.

use std::{fmt, fs::File, os::unix::fs::FileExt};

/// Largest table that is read from a file. The strings of the largest browsers need a tenth.
const MOST_BYTES: u64 = 64 << 20;
/// Most program headers, definitions of versions, and bytes of the path of an interpreter.
const MOST_SEGMENTS: u64 = 4096;
const MOST_VERSIONS: u64 = 4096;
const MOST_PATH: u64 = 4096;
/// Most symbols in one chain of a hash table.
const MOST_LINKS: u64 = 65_536;

const HEADER: u64 = 64;
const SEGMENT: usize = 56;
const SYMBOL_BYTES: u64 = 24;

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;
const NOTE: u32 = 4;

/// Tags of the dynamic section.
mod tag {
    pub(super) const NEEDED: u64 = 1;
    pub(super) const HASH: u64 = 4;
    pub(super) const STRINGS: u64 = 5;
    pub(super) const SYMBOLS: u64 = 6;
    pub(super) const STRINGS_SIZE: u64 = 10;
    pub(super) const GNU_HASH: u64 = 0x6fff_fef5;
    pub(super) const FLAGS: u64 = 0x6fff_fffb;
    pub(super) const VERSIONS: u64 = 0x6fff_fffc;
    pub(super) const VERSIONS_COUNT: u64 = 0x6fff_fffd;
}

/// The bit in the dynamic flags of an executable that may lie at any address.
const IS_PROGRAM: u64 = 0x0800_0000;

/// The reason why a file is not a program for x86-64 that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfError {
    /// The file does not begin as an ELF file.
    Foreign,
    /// The file is for 32-bit processors.
    Narrow,
    /// The file is for a processor of another kind, with this number.
    Machine(u16),
    /// An object file, a core file, or another type, with this number.
    Type(u16),
    /// This part of the file is damaged.
    Damaged(&'static str),
}

/// Bytes that can be read at any offset.
pub trait Bytes {
    /// Returns how many there are.
    fn size(&self) -> u64;

    /// Returns these bytes, or `None` if not all exist or there are too many.
    fn bytes(&self, start: u64, count: u64) -> Option<Vec<u8>>;
}

impl Bytes for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn bytes(&self, start: u64, count: u64) -> Option<Vec<u8>> {
        let end = usize::try_from(start.checked_add(count)?).ok()?;
        Some(self.get(usize::try_from(start).ok()?..end)?.to_vec())
    }
}

impl Bytes for File {
    fn size(&self) -> u64 {
        self.metadata().map_or(0, |metadata| metadata.len())
    }

    fn bytes(&self, start: u64, count: u64) -> Option<Vec<u8>> {
        let end = start.checked_add(count)?;
        if count > MOST_BYTES || end > self.size() {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(count).ok()?];
        self.read_exact_at(&mut bytes, start).ok()?;
        Some(bytes)
    }
}

/// A dynamic symbol: the offset of its name, and whether the file defines it.
#[derive(Debug)]
struct Symbol {
    name: u64,
    is_defined: bool,
}

/// A program or library for x86-64.
#[derive(Debug)]
pub struct Elf {
    interpreter: Option<Vec<u8>>,
    is_library: bool,
    has_go_note: bool,
    strings: Vec<u8>,
    /// Offsets in `strings`, as are those of symbols.
    libraries: Vec<u64>,
    versions: Vec<u64>,
    symbols: Vec<Symbol>,
}

impl Elf {
    /// Reads the facts.
    ///
    /// # Errors
    ///
    /// The file is no program or library for x86-64, or damaged.
    pub fn read(file: &(impl Bytes + ?Sized)) -> Result<Self, ElfError> {
        let start = file.bytes(0, 20).filter(|bytes| bytes.starts_with(b"\x7fELF"));
        let start = start.ok_or(ElfError::Foreign)?;
        let kind = check_target(&start)?;
        let segments = Segments::read(file)?;
        let mut elf = Elf {
            interpreter: segments.interpreter(file)?,
            is_library: false,
            has_go_note: segments.has_go_note(file)?,
            strings: Vec::new(),
            libraries: Vec::new(),
            symbols: Vec::new(),
            versions: Vec::new(),
        };
        let dynamic = segments.dynamic(file)?;
        let is_program = dynamic.value(tag::FLAGS).is_some_and(|flags| flags & IS_PROGRAM != 0);
        elf.is_library = kind == 3 && elf.interpreter.is_none() && !is_program;
        if let Some(strings) = dynamic.value(tag::STRINGS) {
            let size = dynamic.value(tag::STRINGS_SIZE).ok_or(STRINGS)?;
            elf.strings = segments.bytes_at(file, strings, size).ok_or(STRINGS)?;
            elf.libraries = dynamic.values(tag::NEEDED).collect();
            elf.symbols = symbols(file, &segments, &dynamic)?;
            elf.versions = versions(file, &segments, &dynamic)?;
        }
        Ok(elf)
    }

    /// The path of the program that loads this one; `None` if it is static.
    pub fn interpreter(&self) -> Option<&[u8]> {
        self.interpreter.as_deref()
    }

    /// Returns true if the file cannot be started by itself: it is a library, or a loader.
    pub fn is_library(&self) -> bool {
        self.is_library
    }

    /// Returns true if the linker of Go made it.
    pub fn has_go_note(&self) -> bool {
        self.has_go_note
    }

    /// Returns the names of the needed libraries.
    pub fn libraries(&self) -> impl Iterator<Item = &[u8]> {
        self.libraries.iter().filter_map(|&offset| self.string(offset))
    }

    /// Returns the names of the defined versions.
    pub fn versions(&self) -> impl Iterator<Item = &[u8]> {
        self.versions.iter().filter_map(|&offset| self.string(offset))
    }

    /// Returns true if the file defines or uses a dynamic symbol of this name.
    pub fn has_symbol(&self, name: &[u8]) -> bool {
        self.symbols.iter().any(|symbol| self.is_name(symbol, name))
    }

    /// Returns true if the file defines a dynamic symbol of this name.
    pub fn defines(&self, name: &[u8]) -> bool {
        self.symbols.iter().any(|symbol| symbol.is_defined && self.is_name(symbol, name))
    }

    fn is_name(&self, symbol: &Symbol, name: &[u8]) -> bool {
        let rest = usize::try_from(symbol.name).ok().and_then(|start| self.strings.get(start..));
        rest.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with(b"\0"))
    }

    fn string(&self, offset: u64) -> Option<&[u8]> {
        let rest = self.strings.get(usize::try_from(offset).ok()?..)?;
        let end = rest.iter().take(MOST_PATH as usize).position(|&byte| byte == 0)?;
        Some(&rest[..end])
    }
}

const SEGMENTS: ElfError = ElfError::Damaged("table of segments");
const STRINGS: ElfError = ElfError::Damaged("table of strings");
const SYMBOLS: ElfError = ElfError::Damaged("table of symbols");
const VERSIONS: ElfError = ElfError::Damaged("table of versions");

/// Returns the type of the file, which is for x86-64.
fn check_target(start: &[u8]) -> Result<u16, ElfError> {
    let [class, order] = [start[4], start[5]];
    let half = |at| match order {
        2 => u16::from_be_bytes([start[at], start[at + 1]]),
        _ => u16::from_le_bytes([start[at], start[at + 1]]),
    };
    match (class, order, half(18), half(16)) {
        (2, 1, 62, kind @ (2 | 3)) => Ok(kind),
        (2, 1, 62, kind) => Err(ElfError::Type(kind)),
        (1, 1 | 2, ..) => Err(ElfError::Narrow),
        (2, 1 | 2, machine, _) => Err(ElfError::Machine(machine)),
        _ => Err(ElfError::Damaged("header")),
    }
}

/// A program header.
struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    bytes: u64,
    align: u64,
}

struct Segments(Vec<Segment>);

impl Segments {
    fn read(file: &(impl Bytes + ?Sized)) -> Result<Self, ElfError> {
        let header = file.bytes(0, HEADER).ok_or(ElfError::Damaged("header"))?;
        let (offset, size, count) = (u64_at(&header, 32), u16_at(&header, 54), u16_at(&header, 56));
        let count = u64::from(count);
        if usize::from(size) != SEGMENT || count > MOST_SEGMENTS {
            return Err(SEGMENTS);
        }
        let table = file.bytes(offset, count * SEGMENT as u64).ok_or(SEGMENTS)?;
        let segment = |entry: &[u8]| Segment {
            kind: u32_at(entry, 0),
            offset: u64_at(entry, 8),
            address: u64_at(entry, 16),
            bytes: u64_at(entry, 32),
            align: u64_at(entry, 48),
        };
        Ok(Segments(table.chunks_exact(SEGMENT).map(segment).collect()))
    }

    fn of_kind(&self, kind: u32) -> impl Iterator<Item = &Segment> {
        self.0.iter().filter(move |segment| segment.kind == kind)
    }

    /// Reads bytes by their address in a running program.
    fn bytes_at(&self, file: &(impl Bytes + ?Sized), address: u64, count: u64) -> Option<Vec<u8>> {
        let start = self.of_kind(LOAD).find_map(|segment| {
            let inside = address.checked_sub(segment.address)?;
            let is_inside = inside.checked_add(count)? <= segment.bytes;
            is_inside.then(|| segment.offset.checked_add(inside))?
        })?;
        file.bytes(start, count)
    }

    fn interpreter(&self, file: &(impl Bytes + ?Sized)) -> Result<Option<Vec<u8>>, ElfError> {
        let Some(segment) = self.of_kind(INTERPRETER).next() else { return Ok(None) };
        let path = (segment.bytes <= MOST_PATH).then(|| file.bytes(segment.offset, segment.bytes));
        let mut path = path.flatten().ok_or(ElfError::Damaged("name of the interpreter"))?;
        let end = path.iter().position(|&byte| byte == 0);
        path.truncate(end.ok_or(ElfError::Damaged("name of the interpreter"))?);
        Ok(Some(path))
    }

    fn has_go_note(&self, file: &(impl Bytes + ?Sized)) -> Result<bool, ElfError> {
        const NOTES: ElfError = ElfError::Damaged("notes");
        for segment in self.of_kind(NOTE) {
            let notes = file.bytes(segment.offset, segment.bytes).ok_or(NOTES)?;
            if has_go_note(&notes, if segment.align == 8 { 8 } else { 4 }) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn dynamic(&self, file: &(impl Bytes + ?Sized)) -> Result<Dynamic, ElfError> {
        let Some(segment) = self.of_kind(DYNAMIC).next() else { return Ok(Dynamic(Vec::new())) };
        let table = file.bytes(segment.offset, segment.bytes);
        let table = table.ok_or(ElfError::Damaged("dynamic section"))?;
        let entries = table.chunks_exact(16).map(|entry| (u64_at(entry, 0), u64_at(entry, 8)));
        Ok(Dynamic(entries.take_while(|&(tag, _)| tag != 0).collect()))
    }
}

/// Returns true if one of the notes is the build id of Go: of type 4, by the owner `Go`.
fn has_go_note(mut notes: &[u8], align: usize) -> bool {
    while let Some((head, rest)) = notes.split_at_checked(12) {
        if u32_at(head, 8) == 4 && u32_at(head, 0) == 4 && rest.starts_with(b"Go\0\0") {
            return true;
        }
        let end = |size: u32| (size as usize).next_multiple_of(align);
        match rest.get(end(u32_at(head, 0)).saturating_add(end(u32_at(head, 4)))..) {
            Some(rest) => notes = rest,
            None => return false,
        }
    }
    false
}

/// Entries of the dynamic section: tag and value.
struct Dynamic(Vec<(u64, u64)>);

impl Dynamic {
    fn values(&self, tag: u64) -> impl Iterator<Item = u64> {
        self.0.iter().filter(move |entry| entry.0 == tag).map(|entry| entry.1)
    }

    fn value(&self, tag: u64) -> Option<u64> {
        self.values(tag).next()
    }
}

/// Returns all dynamic symbols.
fn symbols(
    file: &(impl Bytes + ?Sized),
    segments: &Segments,
    dynamic: &Dynamic,
) -> Result<Vec<Symbol>, ElfError> {
    let Some(start) = dynamic.value(tag::SYMBOLS) else { return Ok(Vec::new()) };
    let count = match (dynamic.value(tag::HASH), dynamic.value(tag::GNU_HASH)) {
        (Some(hash), _) => {
            let head = segments.bytes_at(file, hash, 8).ok_or(SYMBOLS)?;
            u64::from(u32_at(&head, 4))
        }
        (None, Some(hash)) => count_by_gnu_hash(file, segments, hash).ok_or(SYMBOLS)?,
        (None, None) => 0,
    };
    let table = segments.bytes_at(file, start, count * SYMBOL_BYTES).ok_or(SYMBOLS)?;
    let symbol = |entry: &[u8]| Symbol {
        name: u64::from(u32_at(entry, 0)),
        is_defined: u16_at(entry, 6) != 0,
    };
    Ok(table.chunks_exact(SYMBOL_BYTES as usize).map(symbol).collect())
}

/// Returns the number of symbols, which is the end of the last chain of the hash table. Undefined
/// symbols come first and are in no chain; a table without a chain tells where they end.
fn count_by_gnu_hash(file: &(impl Bytes + ?Sized), segments: &Segments, start: u64) -> Option<u64> {
    let head = segments.bytes_at(file, start, 16)?;
    let word = |index: usize| u64::from(u32_at(&head, 4 * index));
    let (buckets, first, filter_words) = (word(0), word(1), word(2));
    let table = start.checked_add(16)?.checked_add(8 * filter_words)?;
    let entries = segments.bytes_at(file, table, 4 * buckets)?;
    let last = entries.chunks_exact(4).map(|entry| u64::from(u32_at(entry, 0))).max();
    let Some(last) = last.filter(|&last| last != 0) else { return Some(first) };
    let chains = table.checked_add(4 * buckets)?;
    for symbol in last..last + MOST_LINKS {
        let at = chains.checked_add(4 * symbol.checked_sub(first)?)?;
        if u32_at(&segments.bytes_at(file, at, 4)?, 0) & 1 != 0 {
            return Some(symbol + 1);
        }
    }
    None
}

/// Returns the offsets of the names of all versions that the file defines.
fn versions(
    file: &(impl Bytes + ?Sized),
    segments: &Segments,
    dynamic: &Dynamic,
) -> Result<Vec<u64>, ElfError> {
    let Some(mut at) = dynamic.value(tag::VERSIONS) else { return Ok(Vec::new()) };
    let count = dynamic.value(tag::VERSIONS_COUNT).unwrap_or(0);
    let mut names = Vec::new();
    for _ in 0..count.min(MOST_VERSIONS) {
        let entry = segments.bytes_at(file, at, 20).ok_or(VERSIONS)?;
        let name = at.checked_add(u64::from(u32_at(&entry, 12))).ok_or(VERSIONS)?;
        let name = segments.bytes_at(file, name, 8).ok_or(VERSIONS)?;
        names.push(u64::from(u32_at(&name, 0)));
        match u32_at(&entry, 16) {
            0 => break,
            next => at = at.checked_add(u64::from(next)).ok_or(VERSIONS)?,
        }
    }
    Ok(names)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElfError::Foreign => {
                f.write_str("is no program (neither ELF nor a script): name an executable")
            }
            ElfError::Narrow => f.write_str("is a 32-bit program: build it for x86-64"),
            ElfError::Machine(183) => f.write_str("is a program for ARM: build it for x86-64"),
            ElfError::Machine(machine) => write!(
                f,
                "is a program for another processor (ELF machine {machine}): build it for x86-64"
            ),
            ElfError::Type(1) => f.write_str("is an object file: link it"),
            ElfError::Type(4) => f.write_str("is a core file: name the program that left it"),
            ElfError::Type(kind) => {
                write!(f, "is no program (ELF type {kind}): name an executable")
            }
            ElfError::Damaged(part) => {
                write!(f, "is damaged (its {part} cannot be read): build or install it again")
            }
        }
    }
}

impl std::error::Error for ElfError {}
