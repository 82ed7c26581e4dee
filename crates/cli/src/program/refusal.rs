//! The reasons why the threads of a program cannot be taken over.

use std::fmt;

use super::elf::ElfError;

/// A reason and its remedy, which follow the name of the program in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be found by this name.
    NotFound,
    /// It cannot be read, for the reason that the system gives.
    Unreadable(String),
    /// It is a directory, a device, or the like.
    NotAFile,
    /// The mode forbids to run the file.
    NotExecutable,
    /// The kernel runs it with the rights of its owner or group.
    SetId,
    /// It gains capabilities when it starts.
    Capabilities,
    /// It is a script for this interpreter.
    Script(String),
    /// It is no program for x86-64.
    Elf(ElfError),
    /// It is a library or a loader.
    Library,
    /// No dynamic linker loads it.
    Static,
    /// The runtime of Go makes its threads; it may be linked dynamically.
    Go { is_static: bool },
    /// It is made for musl, by the path of its interpreter.
    Musl,
    /// It is made for another C library, by the path of its interpreter.
    Interpreter(String),
    /// This sanitizer is part of it.
    Sanitizer(&'static str),
    /// It defines the function that creates threads, which comes before that of any library.
    OwnThreads,
    /// Its interpreter, or the C library beside that, is not installed.
    NoLibrary(String),
    /// Its C library has this version, below 2.34.
    OldLibrary(String),
}

impl From<ElfError> for Refusal {
    fn from(error: ElfError) -> Self {
        Refusal::Elf(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DYNAMIC: &str = "link it dynamically against the GNU C library";
        match self {
            Refusal::NotFound => f.write_str("is not found: give its path, or see PATH"),
            Refusal::Unreadable(error) => {
                write!(f, "cannot be read ({error}): allow this user to read it")
            }
            Refusal::NotAFile => f.write_str("is no regular file: name an executable"),
            Refusal::NotExecutable => f.write_str("is not executable: chmod +x, or name a program"),
            Refusal::SetId => f.write_str(
                "is setuid or setgid, and loads no library for its caller: \
                 use a copy without that mode",
            ),
            Refusal::Capabilities => f.write_str(
                "gains capabilities, and loads no library for its caller: \
                 use a copy without them",
            ),
            Refusal::Script(interpreter) => {
                write!(f, "is a script: name its interpreter instead, {interpreter}")
            }
            Refusal::Elf(error) => error.fmt(f),
            Refusal::Library => f.write_str("is a library or a loader: name an executable"),
            Refusal::Static => {
                write!(f, "is static: its threads cannot be taken over; {DYNAMIC}")
            }
            Refusal::Go { is_static } => write!(
                f,
                "is {}: its threads cannot be taken over, as Go schedules goroutines itself; \
                 run it as it is",
                if *is_static { "static (Go)" } else { "a Go program" }
            ),
            Refusal::Musl => {
                write!(f, "uses musl: its threads cannot be taken over; {DYNAMIC}")
            }
            Refusal::Interpreter(path) => {
                write!(f, "is loaded by {path}, not by that of the GNU C library; {DYNAMIC}")
            }
            Refusal::Sanitizer(name) => write!(
                f,
                "is built with {name}, which knows no contexts but threads: build it without"
            ),
            Refusal::OwnThreads => f.write_str(
                "defines pthread_create (a sanitizer, or a library that is linked statically): \
                 build it without",
            ),
            Refusal::NoLibrary(path) => {
                write!(f, "needs {path}, which cannot be read: install the C library of its system")
            }
            Refusal::OldLibrary(version) => {
                write!(
                    f,
                    "uses glibc {version}: its threads need 2.34 or later; use a newer system"
                )
            }
        }
    }
}

impl std::error::Error for Refusal {}
