//! Why packets cannot be steered here, and what to change.

use std::fmt;
use std::io;

/// Why; its message is one line and names the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SteeringError {
    /// The table is not there: the kernel does not steer, or this is not the network namespace that shows it.
    NoTable,
    /// The loopback's queue cannot be told to steer: the kernel does not.
    NoQueue,
    /// The caller is not allowed to.
    NotAllowed {
        /// Do what.
        what: &'static str,
    },
    /// Another process has changed the table for a while.
    Busy {
        /// Who has; `None` if it does not say.
        pid: Option<u32>,
    },
    /// What was noted of a change is not readable.
    Damaged,
    /// The kernel refused for another reason.
    Refused {
        /// What it refused.
        what: &'static str,
        /// The kernel's error number.
        errno: i32,
    },
}

impl SteeringError {
    pub(super) fn of(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::EROFS) => Self::NotAllowed { what },
            errno => Self::Refused { what, errno: errno.unwrap_or(libc::EIO) },
        }
    }
}

impl fmt::Display for SteeringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoTable => f.write_str(
                "there is no net.core.rps_sock_flow_entries: use a kernel with CONFIG_RPS, and its first network \
                 namespace (not a container's own)",
            ),
            Self::NoQueue => {
                f.write_str("the loopback has no rps_flow_cnt: use a kernel with CONFIG_RPS")
            }
            Self::NotAllowed { what } => {
                write!(f, "not allowed to {what}: run as root of the host (a user namespace does not do)")
            }
            Self::Busy { pid } => {
                let pid = pid.map_or(String::new(), |pid| format!(" ({pid})"));
                write!(f, "another process{pid} has changed net.core.rps_sock_flow_entries: wait for its end")
            }
            Self::Damaged => write!(
                f,
                "{} does not say what to restore: see to net.core.rps_sock_flow_entries yourself, and remove the file",
                super::table::JOURNAL
            ),
            Self::Refused { what, errno } => {
                write!(f, "cannot {what}: {}", io::Error::from_raw_os_error(errno))
            }
        }
    }
}

impl std::error::Error for SteeringError {}
