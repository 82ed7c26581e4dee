//! Functions and source lines of addresses.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use addr2line::{Loader, demangle_auto};
use daiko_core::inspect::plain_text;
use object::read::ReadCache;
use object::{Object, ObjectSection};

use crate::source::{LoadedFile, Subject};

/// The folder of debug information that packages install apart.
const DEBUG_FOLDER: &str = "/usr/lib/debug";
/// Most frames that may be inlined into one another.
const MOST_INLINED: usize = 64;

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// Its name; an address in the file where it is not known.
    pub function: String,
    /// The path of the source file and the line, where they are known.
    pub line: Option<(String, u32)>,
    /// True if the compiler has inlined it into the next frame.
    pub is_inlined: bool,
}

/// The crates below the public API, by parts of the paths of their sources: in a checkout, and in a
/// registry.
const OF_RUNTIME: [&str; 8] = [
    "crates/pthread/src/",
    "crates/rt/src/",
    "crates/context/src/",
    "crates/core/src/",
    "/daiko-pthread-",
    "/daiko-rt-",
    "/daiko-context-",
    "/daiko-core-",
];

/// The beginnings of the names of their functions, and of those of the standard library, for frames
/// without lines.
const CRATES_OF_RUNTIME: [&str; 14] = [
    "daiko_pthread::",
    "<daiko_pthread::",
    "daiko_rt::",
    "<daiko_rt::",
    "daiko_context::",
    "daiko_core::",
    "<daiko_core::",
    "core::",
    "<core::",
    "std::",
    "<std::",
    "__rust_try",
    "__rustc::",
    "alloc::",
];

impl Frame {
    /// Returns true if it is one of the runtime's own functions, or of the standard library.
    fn is_of_runtime(&self) -> bool {
        match &self.line {
            Some((file, _)) => {
                file.starts_with("/rustc/") || OF_RUNTIME.iter().any(|part| file.contains(part))
            }
            None => CRATES_OF_RUNTIME.iter().any(|name| self.function.starts_with(name)),
        }
    }
}

/// Returns the part of a stack, with the innermost frame first, between the frames in which the
/// runtime began the fiber and those in which it suspends the fiber; the whole stack if that part
/// is empty.
pub fn without_runtime(frames: &[Frame]) -> &[Frame] {
    let is_of_program = |frame: &Frame| !frame.is_of_runtime();
    match (frames.iter().position(is_of_program), frames.iter().rposition(is_of_program)) {
        (Some(first), Some(last)) => &frames[first..=last],
        _ => frames,
    }
}

/// The symbols of a process.
pub struct Symbols<'s> {
    subject: &'s Subject,
    /// The symbols of each file, once they were needed; `None`: there are none.
    loaders: Vec<Option<Option<Loader>>>,
    known: HashMap<u64, Rc<[Frame]>>,
}

impl<'s> Symbols<'s> {
    /// Begins without any: files are read when they are needed.
    pub fn new(subject: &'s Subject) -> Self {
        let loaders = subject.files().iter().map(|_| None).collect();
        Symbols { subject, loaders, known: HashMap::new() }
    }

    /// Returns the functions at `address`, the innermost first. `is_return` says that the address
    /// is that behind a call.
    pub fn frames(&mut self, address: u64, is_return: bool) -> Rc<[Frame]> {
        // The call is the instruction before.
        let address = address - u64::from(is_return && address > 0);
        if let Some(frames) = self.known.get(&address) {
            return Rc::clone(frames);
        }
        let frames: Rc<[Frame]> = self.look_up(address).into();
        self.known.insert(address, Rc::clone(&frames));
        frames
    }

    fn look_up(&mut self, address: u64) -> Vec<Frame> {
        let unknown = |function| vec![Frame { function, line: None, is_inlined: false }];
        let files = self.subject.files();
        let Some(index) = files.iter().position(|file| contains(file, address)) else {
            return unknown(format!("{address:#x}"));
        };
        let (file, subject) = (&files[index], self.subject);
        let in_file = address.wrapping_sub(file.image.bias);
        let loader = self.loaders[index].get_or_insert_with(|| load(subject, file));
        let frames = loader.as_ref().map(|loader| frames_of(loader, in_file)).unwrap_or_default();
        match frames.is_empty() {
            true => {
                let name = Path::new(&file.path).file_name().unwrap_or(OsStr::new("?"));
                unknown(format!("{}+{in_file:#x}", name.display()))
            }
            false => frames,
        }
    }
}

fn contains(file: &LoadedFile, address: u64) -> bool {
    let code = file.image.segments.iter().filter(|segment| segment.is_code);
    code.into_iter().any(|segment| {
        address.checked_sub(segment.address).is_some_and(|offset| offset < segment.bytes)
    })
}

fn frames_of(loader: &Loader, address: u64) -> Vec<Frame> {
    let mut frames = Vec::new();
    if let Ok(mut found) = loader.find_frames(address) {
        while frames.len() < MOST_INLINED
            && let Ok(Some(frame)) = found.next()
        {
            let name = frame.function.as_ref().and_then(|name| name.raw_name().ok());
            let name = name.or_else(|| loader.find_symbol(address).map(Into::into));
            let Some(name) = name else { continue };
            let line = frame.location.and_then(|at| Some((at.file?.to_owned(), at.line?)));
            frames.push(Frame { function: plain(name.as_ref()), line, is_inlined: true });
        }
    }
    if frames.is_empty() {
        let symbol = loader.find_symbol(address);
        let function = symbol.map(plain);
        frames.extend(function.map(|function| Frame { function, line: None, is_inlined: true }));
    }
    if let Some(last) = frames.last_mut() {
        last.is_inlined = false;
    }
    frames
}

/// Demangles a name, and removes the hash that the compiler appends.
fn plain(name: &str) -> String {
    let name = demangle_auto(name.into(), None);
    let hashed = name.rsplit_once("::h").filter(|(_, hash)| {
        hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
    });
    let name = hashed.map_or(&*name, |(path, _)| path);
    plain_text(name.as_bytes())
}

/// Opens the symbols of a file: its own, or those that a package has installed apart.
fn load(subject: &Subject, file: &LoadedFile) -> Option<Loader> {
    subject.paths_of(file).iter().find_map(|path| {
        let object = ReadCache::new(File::open(path).ok()?);
        let object = object::File::parse(&object).ok()?;
        // A file of another build has other addresses.
        if object.build_id().ok().flatten() != file.build_id.as_deref() {
            return None;
        }
        let has_lines = object.section_by_name(".debug_info").is_some_and(|info| info.size() > 0);
        let apart = if has_lines { Vec::new() } else { files_apart(path, &object, file) };
        let apart = apart.iter().find_map(|apart| of_same_build(apart, file));
        apart.or_else(|| Loader::new(path).ok())
    })
}

/// Opens a file with debug information, if it is of the same build.
fn of_same_build(path: &Path, file: &LoadedFile) -> Option<Loader> {
    let object = ReadCache::new(File::open(path).ok()?);
    let object = object::File::parse(&object).ok()?;
    let is_same = object.build_id().ok().flatten() == file.build_id.as_deref();
    is_same.then(|| Loader::new(path).ok())?
}

/// Returns the places where debuggers look for debug information that lies apart: by the build id,
/// and by the name that the file gives (gdb's manual, "Debugging Information in Separate Files").
fn files_apart<'d>(path: &Path, object: &impl Object<'d>, file: &LoadedFile) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some([first, rest @ ..]) = file.build_id.as_deref() {
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        places.push(format!("{DEBUG_FOLDER}/.build-id/{first:02x}/{rest}.debug").into());
    }
    let link = object.gnu_debuglink().ok().flatten();
    let real = Path::new(file.path.trim_end_matches(" (deleted)")).parent();
    if let (Some((name, _checksum)), Some(folder)) = (link, path.parent()) {
        let name = Path::new(OsStr::from_bytes(name));
        if name.components().count() == 1 {
            places.push(folder.join(name));
            places.push(folder.join(".debug").join(name));
            let beside = real.and_then(|folder| folder.strip_prefix("/").ok());
            places.extend(beside.map(|folder| Path::new(DEBUG_FOLDER).join(folder).join(name)));
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_in_the_source() {
        let mangled = "_ZN5daiko4sync5mutex14Mutex$LT$T$GT$4lock17h0123456789abcdefE";
        assert_eq!(plain(mangled), "daiko::sync::mutex::Mutex<T>::lock");
        assert_eq!(plain("main"), "main");
        assert_eq!(plain("a\nb::h0123"), "a?b::h0123");
    }
}
