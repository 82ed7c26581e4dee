//! Answers if a preloaded library can take over the threads of a program, for
//! `daiko doctor PROGRAM` and `daiko run`.
//!
//! The answer is about the executable and its C library. Other libraries are not opened: a
//! sanitizer is found in the program only, and a program that names no function that creates
//! threads may create them through a library.

#[doc(hidden)]
pub mod described;
#[doc(hidden)]
pub mod elf;
mod refusal;

use std::{
    fmt,
    fs::{self, File, Metadata},
    io::{ErrorKind, Write},
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
    process::ExitCode,
};

use daiko_sys::descriptor;

use self::elf::{Bytes, Elf, ElfError};
use crate::{
    problem::Problem,
    search::{find, is_path},
};

pub use refusal::Refusal;

/// The first release of the GNU C library that holds the functions of threads itself.
const OLDEST: [u32; 2] = [2, 34];

/// A function by which programs create threads.
const CREATORS: [&[u8]; 2] = [b"pthread_create", b"thrd_create"];

/// Sanitizers: the start of the name of the library, a symbol, the name.
const SANITIZERS: [(&[u8], &[u8], &str); 5] = [
    (b"libasan.so", b"__asan_init", "AddressSanitizer"),
    (b"libtsan.so", b"__tsan_init", "ThreadSanitizer"),
    (b"liblsan.so", b"__lsan_init", "LeakSanitizer"),
    (b"libhwasan.so", b"__hwasan_init", "HWAddressSanitizer"),
    (b"libmsan.so", b"__msan_init", "MemorySanitizer"),
];

/// A program with threads that could be taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenProgram {
    /// The version of the C library.
    glibc: String,
    creates_threads: bool,
}

/// Prints a line about the program.
pub(crate) fn run(name: &Path, out: &mut dyn Write) -> Result<ExitCode, Problem> {
    match inspect(name) {
        Ok((path, program)) => {
            writeln!(out, "{}: {program}", plain(path.as_os_str().as_bytes()))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(refusal) => Err(refused(name, &refusal)),
    }
}

/// Finds and reads the program.
pub(crate) fn inspect(name: &Path) -> Result<(PathBuf, OpenProgram), Refusal> {
    let (path, metadata) = locate(name)?;
    check_mode(metadata.mode())?;
    let unreadable = |error: std::io::Error| Refusal::Unreadable(error.to_string());
    let file = File::open(&path).map_err(unreadable)?;
    if descriptor::has_capabilities(file.as_fd()).map_err(unreadable)? {
        return Err(Refusal::Capabilities);
    }
    let elf = read(&file)?;
    let glibc = glibc_beside(elf.interpreter().unwrap_or_default())?;
    Ok((path, OpenProgram { glibc, creates_threads: creates_threads(&elf) }))
}

/// Finds the program, which is a regular file.
pub(crate) fn locate(name: &Path) -> Result<(PathBuf, Metadata), Refusal> {
    let path = match find(name) {
        Some(path) => path,
        None if is_path(name) => name.to_owned(),
        None => return Err(Refusal::NotFound),
    };
    let metadata = fs::metadata(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Refusal::NotFound,
        _ => Refusal::Unreadable(error.to_string()),
    })?;
    if metadata.is_file() { Ok((path, metadata)) } else { Err(Refusal::NotAFile) }
}

/// Returns the line of a refusal.
pub(crate) fn refused(name: &Path, refusal: &Refusal) -> Problem {
    Problem::usage(format!("{} {refusal}", name.display()))
}

fn check_mode(mode: u32) -> Result<(), Refusal> {
    match mode {
        _ if mode & 0o111 == 0 => Err(Refusal::NotExecutable),
        // Without the group's right to execute, the bit means something else.
        _ if mode & 0o4000 != 0 || mode & 0o2010 == 0o2010 => Err(Refusal::SetId),
        _ => Ok(()),
    }
}

/// Reads a program that a preloaded library reaches, for all that its file tells.
///
/// # Errors
///
/// The reason why the threads cannot be taken over.
pub fn read(file: &(impl Bytes + ?Sized)) -> Result<Elf, Refusal> {
    let elf = Elf::read(file).map_err(|error| match error {
        ElfError::Foreign => script(file).map_or(error.into(), Refusal::Script),
        _ => error.into(),
    })?;
    match elf.interpreter() {
        _ if elf.is_library() => return Err(Refusal::Library),
        path if elf.has_go_note() => return Err(Refusal::Go { is_static: path.is_none() }),
        None => return Err(Refusal::Static),
        Some(path) => check_interpreter(path)?,
    }
    match sanitizer(&elf) {
        Some(name) => Err(Refusal::Sanitizer(name)),
        None if CREATORS.iter().any(|name| elf.defines(name)) => Err(Refusal::OwnThreads),
        None => Ok(elf),
    }
}

/// Returns the interpreter of a script, as its first line names it.
fn script(file: &(impl Bytes + ?Sized)) -> Option<String> {
    // The kernel reads 256 bytes.
    let start = file.bytes(0, file.size().min(256))?;
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let line = plain(line.trim_ascii());
    (!line.is_empty()).then_some(line)
}

fn check_interpreter(path: &[u8]) -> Result<(), Refusal> {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    match name {
        b"ld-linux-x86-64.so.2" => Ok(()),
        _ if name.starts_with(b"ld-musl") => Err(Refusal::Musl),
        _ => Err(Refusal::Interpreter(plain(path))),
    }
}

fn sanitizer(elf: &Elf) -> Option<&'static str> {
    let is_part = |&&(library, symbol, _): &&(&[u8], &[u8], _)| {
        elf.libraries().any(|name| name.starts_with(library)) || elf.has_symbol(symbol)
    };
    SANITIZERS.iter().find(is_part).map(|sanitizer| sanitizer.2)
}

/// Returns true if the program itself names a function that creates threads.
pub fn creates_threads(elf: &Elf) -> bool {
    CREATORS.iter().any(|name| elf.has_symbol(name))
}

/// Returns the version of the C library, which lies beside its loader.
fn glibc_beside(interpreter: &[u8]) -> Result<String, Refusal> {
    let loader = Path::new(std::ffi::OsStr::from_bytes(interpreter));
    let missing = |path: &Path| Refusal::NoLibrary(plain(path.as_os_str().as_bytes()));
    let loader = fs::canonicalize(loader).map_err(|_| missing(loader))?;
    let library = loader.with_file_name("libc.so.6");
    let elf = File::open(&library).ok().and_then(|file| Elf::read(&file).ok());
    let elf = elf.ok_or_else(|| missing(&library))?;
    let version = glibc_version(&elf).ok_or_else(|| missing(&library))?;
    let text = format!("{}.{}", version[0], version[1]);
    if version < OLDEST { Err(Refusal::OldLibrary(text)) } else { Ok(text) }
}

/// Returns the latest version of its interface that a C library defines. A release without a new
/// symbol defines none, so it may be later than that.
pub fn glibc_version(library: &Elf) -> Option<[u32; 2]> {
    let number = |name: &[u8]| {
        let (major, minor) =
            std::str::from_utf8(name.strip_prefix(b"GLIBC_")?).ok()?.split_once('.')?;
        let minor = minor.split('.').next()?;
        Some([major.parse().ok()?, minor.parse().ok()?])
    };
    library.versions().filter_map(number).max()
}

/// Returns a path as text on one line.
fn plain(path: &[u8]) -> String {
    String::from_utf8_lossy(path).replace(char::is_control, "?")
}

impl fmt::Display for OpenProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = match self.creates_threads {
            true => "creates threads",
            false => "creates no threads itself (its libraries may)",
        };
        write!(f, "dynamic, glibc {}, {threads}: could be taken over", self.glibc)
    }
}

#[cfg(test)]
mod tests;
