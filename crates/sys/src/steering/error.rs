//! Reasons why packets cannot be steered here, with their remedies.

use std::fmt;
use std::io;

/// Reason why packets cannot be steered. Its message is one line and names the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SteeringError {
    /// The table is missing: the kernel does not steer, or this network namespace does not show it.
    NoTable,
    /// The loopback's queue has no setting for steering: the kernel does not steer.
    NoQueue,
    /// The caller lacks the permission.
    NotAllowed {
        /// The refused action.
        action: &'static str,
    },
    /// Another process has borrowed the table.
    Busy {
        /// The id of that process; `None` if the journal does not name it.
        pid: Option<u32>,
    },
    /// The journal of a change is unreadable.
    Damaged,
    /// The kernel refused for a reason of its own.
    Refused {
        /// The refused action.
        action: &'static str,
        /// The kernel's error number.
        errno: i32,
    },
}

impl SteeringError {
    pub(super) fn of(action: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::EROFS) => Self::NotAllowed { action },
            errno => Self::Refused { action, errno: errno.unwrap_or(libc::EIO) },
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
            Self::NotAllowed { action } => {
                write!(f, "not allowed to {action}: run as root of the host (a user namespace does not do)")
            }
            Self::Busy { pid } => {
                let pid = pid.map_or(String::new(), |pid| format!(" ({pid})"));
                write!(f, "another process{pid} has changed net.core.rps_sock_flow_entries: wait for its end")
            }
            Self::Damaged => write!(
                f,
                "{} does not name the values to restore: set net.core.rps_sock_flow_entries yourself, and remove the file",
                super::table::JOURNAL
            ),
            Self::Refused { action, errno } => {
                write!(f, "cannot {action}: {}", io::Error::from_raw_os_error(errno))
            }
        }
    }
}

impl std::error::Error for SteeringError {}
