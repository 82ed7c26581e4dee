//! The reasons why blocks cannot be built.

use std::ffi::{CStr, OsString};
use std::fmt;

use daiko_sys::memory::MemoryError;

/// The reason why blocks cannot be built here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsupported {
    /// The C library lacks this symbol: it is no GNU C library from 2.34 on, or the program is
    /// linked statically.
    Symbol(&'static CStr),
    /// This part of a thread does not look as known.
    Layout(&'static str),
    /// This kind of processor lays a thread out otherwise: its thread-locals follow its pointer.
    Processor,
    /// No scratch thread could be started.
    Thread,
    /// There is no memory for a scratch thread.
    Memory(MemoryError),
    /// The runtime was built without blocks.
    Disabled,
    /// The program was built for a sanitizer, which keeps the state of a thread in thread-locals.
    Sanitizer,
    /// The environment variable `DAIKO_THREAD_BLOCKS` names no kind of blocks.
    Variable {
        /// The value of the variable.
        value: OsString,
    },
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::Symbol(name) => write!(
                f,
                "the C library has no {}: link dynamically against the GNU C library, 2.34 or later",
                name.to_string_lossy()
            ),
            Unsupported::Layout(part) => {
                write!(f, "this C library keeps {part} of a thread in a way not known")
            }
            Unsupported::Processor => {
                f.write_str("threads of this processor are not laid out as those of x86-64")
            }
            Unsupported::Disabled => write!(f, "this runtime has none; build another one"),
            Unsupported::Sanitizer => {
                write!(f, "a sanitizer knows the blocks of threads only; build without it")
            }
            Unsupported::Thread => f.write_str(
                "no thread could be started; see ulimit -u, and pids.max of the control group",
            ),
            Unsupported::Memory(error) => error.fmt(f),
            Unsupported::Variable { value } => {
                write!(f, "DAIKO_THREAD_BLOCKS is {value:?}: set it to home, or unset it")
            }
        }
    }
}

impl std::error::Error for Unsupported {}
