//! The reasons why a process or a core file cannot be read.

use std::path::PathBuf;
use std::{fmt, fs, io};

use daiko_core::inspect::TableRefused;

/// A reason why a process or a core file cannot be read. Its text is one line, with the remedy.
#[derive(Debug)]
pub enum InspectError {
    /// There is no such process.
    Gone {
        /// Its id.
        process: u32,
    },
    /// The caller may not read the process.
    Denied {
        /// Its id.
        process: u32,
    },
    /// No executable or library of the process contains Daiko's runtime.
    NoRuntime {
        /// The process or file.
        subject: String,
    },
    /// The table of a runtime is refused.
    Table {
        /// The process or file.
        subject: String,
        /// The reason.
        refused: TableRefused,
    },
    /// A file cannot be read.
    File {
        /// Its path.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// Another process traces it.
    Traced {
        /// Its id.
        process: u32,
        /// The id of the other one; 0: not known.
        by: u64,
    },
    /// The file is no core file of this architecture.
    NoCore {
        /// Its path.
        path: PathBuf,
    },
}

impl InspectError {
    /// The reason why a process cannot be read, from the error of the attempt.
    pub(crate) fn unreadable(process: u32, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => InspectError::Denied { process },
            _ => InspectError::Gone { process },
        }
    }

    /// The reason why a process cannot be stopped, from the error of the attempt.
    pub(crate) fn unstoppable(process: u32, error: &io::Error) -> Self {
        match tracer_of(process) {
            Some(by) if error.kind() == io::ErrorKind::PermissionDenied => {
                InspectError::Traced { process, by }
            }
            _ => Self::unreadable(process, error),
        }
    }
}

impl fmt::Display for InspectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InspectError::Gone { process } => {
                write!(f, "there is no process {process}; `daiko ps` lists those with a runtime")
            }
            InspectError::Denied { process } => {
                write!(f, "process {process} may not be read; ")?;
                f.write_str(match yama_scope() {
                    Some(1..) => {
                        "be its user and set /proc/sys/kernel/yama/ptrace_scope to 0, or be root"
                    }
                    _ => "be its user, in its user namespace, or be root",
                })
            }
            InspectError::NoRuntime { subject } => write!(
                f,
                "{subject} has no runtime of Daiko; `daiko ps` lists the processes that have one"
            ),
            InspectError::Table { subject, refused } => write!(f, "{subject}: {refused}"),
            InspectError::File { path, error } => write!(f, "{}: {error}", path.display()),
            InspectError::Traced { process, by: 0 } => write!(
                f,
                "process {process} is traced by another process as well; trace it by one at a time"
            ),
            InspectError::Traced { process, by } => write!(
                f,
                "process {process} is traced by process {by}; wait for its end, or end it"
            ),
            InspectError::NoCore { path } => write!(
                f,
                "{} is no core file of x86-64; give one of `daiko core`, of gcore or of the kernel",
                path.display()
            ),
        }
    }
}

impl std::error::Error for InspectError {}

/// Returns the id of the process that traces this one as debuggers do.
fn tracer_of(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    tracer.trim().parse().ok().filter(|&tracer| tracer != 0)
}

/// Returns the setting of Yama, which may forbid to trace processes other than children.
fn yama_scope() -> Option<u32> {
    fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?.trim().parse().ok()
}
