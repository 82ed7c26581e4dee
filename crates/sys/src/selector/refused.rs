//! Reasons for the lack of a selector, with their remedies.

use std::fmt;
use std::io;

use super::SelectorKind;

/// Reason why a selector of some kind is not available. Its message is one line and names the
/// remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    kind: SelectorKind,
    call: &'static str,
    /// The kernel's error number; 0 if all calls succeeded but no change was reported.
    errno: i32,
}

impl Refused {
    pub(super) fn new(kind: SelectorKind, call: &'static str, error: &io::Error) -> Self {
        // Errors of system calls have a number.
        Self { kind, call, errno: error.raw_os_error().unwrap_or(libc::EINVAL) }
    }

    /// The selector reported no change.
    pub(super) fn silent(kind: SelectorKind) -> Self {
        Self { kind, call: "io_uring_enter", errno: 0 }
    }

    /// The refused kind.
    pub fn kind(&self) -> SelectorKind {
        self.kind
    }

    /// The first Linux that has all required features.
    fn since(&self) -> &'static str {
        match self.kind {
            SelectorKind::Epoll => "2.6.27",
            SelectorKind::Ring { deferred: false } => "5.13",
            SelectorKind::Ring { deferred: true } => "6.1",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, call, errno } = *self;
        match errno {
            libc::EPERM | libc::EACCES => write!(
                f,
                "{call} forbidden: allow io_uring in seccomp, and set kernel.io_uring_disabled to 0"
            ),
            libc::ENOMEM => write!(f, "{call} lacks memory: raise RLIMIT_MEMLOCK (ulimit -l)"),
            libc::EMFILE | libc::ENFILE => {
                write!(f, "{call}: too many open files: raise RLIMIT_NOFILE (ulimit -n)")
            }
            0 | libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP => {
                write!(f, "no {kind}: run on Linux {} or later with CONFIG_IO_URING", self.since())
            }
            errno => write!(f, "{call} refused: {}", io::Error::from_raw_os_error(errno)),
        }
    }
}

impl std::error::Error for Refused {}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        let kind = io::Error::from_raw_os_error(refused.errno).kind();
        io::Error::new(kind, refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_is_one_line_with_its_remedy() {
        let deferred = SelectorKind::Ring { deferred: true };
        for (errno, remedy) in [
            (libc::EPERM, "io_uring_disabled"),
            (libc::ENOMEM, "ulimit -l"),
            (libc::EMFILE, "ulimit -n"),
            (libc::ENOSYS, "6.1"),
            (libc::EINVAL, "6.1"),
            (0, "6.1"),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            let text = Refused::new(deferred, "io_uring_setup", &error).to_string();
            assert!(text.contains(remedy) && !text.contains('\n'), "{errno}: {text}");
        }
        let full = io::Error::from_raw_os_error(libc::EMFILE);
        let refused = io::Error::from(Refused::new(SelectorKind::Epoll, "epoll_create1", &full));
        assert_eq!(refused.kind(), full.kind());
    }
}
