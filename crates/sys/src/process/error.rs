//! Reasons for the kernel's refusals that concern processes, with their remedies.

use std::fmt;

/// Reason why a process cannot be watched. Its message is one line and names the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessError {
    /// No process has this id, or it has ended.
    NoSuchProcess {
        /// The id.
        pid: u32,
    },
    /// The kernel lacks this system call, or a seccomp filter refuses it.
    Unsupported {
        /// The system call.
        call: &'static str,
        /// The first Linux that has it.
        since: &'static str,
    },
    /// `RLIMIT_NOFILE` or the system's limit of open files would be exceeded.
    Files,
    /// `/proc` is not mounted, or shows a PID namespace other than this process's own.
    ForeignProc,
    /// This process has several threads, but a forked child would have only one.
    Threads,
    /// The limits of processes (`RLIMIT_NPROC`, `pids.max`, `kernel.pid_max`) are reached.
    Processes,
    /// The C library's copy of the thread id cannot be found.
    ThreadId,
    /// The kernel refused for a reason of its own.
    Refused {
        /// The kernel's error number.
        errno: i32,
    },
}

impl ProcessError {
    pub(super) fn diagnose(errno: i32, call: &'static str, since: &'static str) -> Self {
        match errno {
            libc::ENOSYS | libc::EPERM => Self::Unsupported { call, since },
            libc::EMFILE | libc::ENFILE => Self::Files,
            errno => Self::Refused { errno },
        }
    }
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoSuchProcess { pid } => {
                write!(f, "no process {pid}: it has ended, or lives in another PID namespace")
            }
            Self::Unsupported { call, since } => {
                write!(f, "{call} refused: run on Linux {since} or later, and allow it in seccomp")
            }
            Self::Files => f.write_str("too many open files: raise RLIMIT_NOFILE (ulimit -n)"),
            Self::ForeignProc => f.write_str(
                "/proc is not that of this PID namespace: mount it anew (mount -t proc proc /proc)",
            ),
            Self::Threads => f.write_str("cannot fork with several threads: do so before any starts"),
            Self::Processes => {
                f.write_str("too many processes: raise RLIMIT_NPROC (ulimit -u) or pids.max")
            }
            Self::ThreadId => f.write_str(
                "cannot keep the thread's id right: use glibc, and a kernel with CONFIG_CHECKPOINT_RESTORE",
            ),
            Self::Refused { errno } => {
                write!(f, "process refused: {}", std::io::Error::from_raw_os_error(errno))
            }
        }
    }
}

impl std::error::Error for ProcessError {}
