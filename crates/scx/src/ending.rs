//! The end of the scheduler.

use std::fmt;

use crate::{Error, event::word};

/// The least kind of an ending caused by an error of the scheduler (`enum scx_exit_kind`).
const ERRORS: i32 = 1024;
/// The kind of an ending by the process that attached the scheduler.
const DETACHED: i32 = 64;

/// The bit of an exit code by which the kernel asks for a restart (`SCX_ECODE_ACT_RESTART`).
const RESTART: i64 = 1 << 48;

/// The end of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    kind: i32,
    code: i64,
    reason: String,
    message: String,
}

impl Ending {
    /// Parses the value of the kernel's map (`struct ending` in `src/bpf/state.h`); `None`
    /// while the scheduler runs.
    pub fn read(value: &[u8]) -> Option<Self> {
        let kind = i32::from_ne_bytes(word(value, 0)?);
        let code = i64::from_ne_bytes(word(value, 8)?);
        let text = |from: usize, to: usize| {
            let text =
                String::from_utf8_lossy(value.get(from..to).unwrap_or_default()).into_owned();
            text.split('\0').next().unwrap_or_default().to_owned()
        };
        (kind != 0).then(|| Ending { kind, code, reason: text(16, 144), message: text(144, 400) })
    }

    /// Returns true if the process that attached the scheduler has detached it, so that nothing is
    /// wrong.
    pub fn was_asked_for(&self) -> bool {
        self.kind == DETACHED
    }

    /// Returns true if the kernel asks for a restart: a CPU came or went, which nothing but a new
    /// start takes into account.
    pub fn is_restart(&self) -> bool {
        self.kind < ERRORS && self.code & RESTART != 0
    }

    /// The error for the user.
    pub fn into_error(self) -> Error {
        let remedy = match self.kind {
            ERRORS.. => "; a fault of the scheduler's: please report it with the output of dmesg",
            _ => "; start it again if you like",
        };
        Error::new(format!(
            "the kernel has let go of the scheduler: {self}; tasks go on under its own one{remedy}"
        ))
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.as_str() {
            "" => f.write_str(&self.reason),
            message => write!(f, "{} ({message})", self.reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: i32, reason: &str, message: &str) -> Vec<u8> {
        let mut value = vec![0; 400];
        value[..4].copy_from_slice(&kind.to_ne_bytes());
        value[16..16 + reason.len()].copy_from_slice(reason.as_bytes());
        value[144..144 + message.len()].copy_from_slice(message.as_bytes());
        value
    }

    #[test]
    fn a_scheduler_that_runs_has_no_ending() {
        assert_eq!(Ending::read(&value(0, "", "")), None);
        assert_eq!(Ending::read(&[]), None);
    }

    #[test]
    fn a_restart_is_asked_for_by_the_code() {
        let with_code = |kind, code: i64| {
            let mut value = value(kind, "", "");
            value[8..16].copy_from_slice(&code.to_ne_bytes());
            Ending::read(&value).unwrap()
        };
        assert!(with_code(66, 1 << 48 | 1 << 32).is_restart());
        assert!(!with_code(66, 1 << 32).is_restart());
        assert!(!with_code(1026, 1 << 48).is_restart(), "an error");
    }

    #[test]
    fn an_ending_says_why() {
        let hotplug = value(66, "unregistered from the main kernel", "cpu 3 going offline\n");
        let ending = Ending::read(&hotplug).unwrap();
        assert!(!ending.was_asked_for());
        let line = ending.into_error().to_string();
        assert!(line.contains("cpu 3 going offline") && line.contains("start it again"), "{line}");
        let stall = Ending::read(&value(1026, "runnable task stall", "")).unwrap();
        assert!(stall.into_error().to_string().contains("report"));
        assert!(
            Ending::read(&value(64, "unregistered from user space", "")).unwrap().was_asked_for()
        );
    }
}
