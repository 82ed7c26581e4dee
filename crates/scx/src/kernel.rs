//! The kernel's state of sched_ext.

use std::{fs, path::PathBuf};

use crate::{Error, NAME};

/// Message for a kernel without sched_ext.
pub const MISSING: &str = "this kernel has no sched_ext: one of version 6.13 or newer is needed, with CONFIG_SCHED_CLASS_EXT";

/// The folders in which the kernel reports its state.
#[derive(Clone, Debug)]
pub struct Kernel {
    sched_ext: PathBuf,
    cpus: PathBuf,
}

/// The active scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The kernel has no sched_ext.
    Missing,
    /// The kernel supports sched_ext and schedules by itself.
    Idle,
    /// A scheduler of that name is attached.
    Attached(String),
    /// A scheduler is being attached or detached.
    Changing(String),
}

impl Kernel {
    /// The kernel of this machine.
    pub fn here() -> Self {
        Kernel { sched_ext: "/sys/kernel/sched_ext".into(), cpus: "/sys/devices/system/cpu".into() }
    }

    /// The state of sched_ext.
    pub fn state(&self) -> State {
        let line =
            |file| fs::read_to_string(self.sched_ext.join(file)).map(|text| text.trim().to_owned());
        let name = || line("root/ops").unwrap_or_else(|_| "without a name".into());
        match line("state").as_deref() {
            Err(_) => State::Missing,
            Ok("disabled") => State::Idle,
            Ok("enabled") => State::Attached(name()),
            Ok(other) => State::Changing(other.into()),
        }
    }

    /// Returns true if the attached scheduler gets all normal tasks of the machine.
    pub fn is_for_all(&self) -> bool {
        fs::read_to_string(self.sched_ext.join("switch_all")).is_ok_and(|text| text.trim() == "1")
    }

    /// Checks that the scheduler of this crate could be attached now.
    pub fn ensure_attachable(&self) -> Result<(), Error> {
        match self.state() {
            State::Idle => Ok(()),
            State::Missing => Err(Error::new(MISSING)),
            State::Attached(name) if name == NAME => Err(Error::new(
                "it is attached already: `daiko schedule status` shows it, `daiko schedule stop` ends it",
            )),
            State::Attached(name) => Err(Error::new(format!(
                "another scheduler is attached: {name}; there can be one only: end that first"
            ))),
            State::Changing(state) => {
                Err(Error::new(format!("sched_ext is {state}: try again when that is over")))
            }
        }
    }

    /// The number of possible CPUs: 1 + the highest number.
    pub fn cpus(&self) -> Result<u32, Error> {
        let file = self.cpus.join("possible");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<u32>().ok());
        last.and_then(|last| last.checked_add(1)).ok_or_else(|| {
            Error::new(format!("{} names no CPU: '{}'", file.display(), text.trim()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(test: &str, files: &[(&str, &str)]) -> Kernel {
        let root = std::env::temp_dir().join(format!("daiko-scx-{}-{test}", std::process::id()));
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Kernel { sched_ext: root.join("scx"), cpus: root.join("cpu") }
    }

    fn end(kernel: &Kernel) {
        fs::remove_dir_all(kernel.cpus.parent().unwrap()).unwrap();
    }

    #[test]
    fn the_current_scheduler_is_named() {
        let missing = kernel("missing", &[("cpu/possible", "0-3\n")]);
        assert_eq!(missing.state(), State::Missing);
        assert!(
            missing.ensure_attachable().unwrap_err().to_string().contains("CONFIG_SCHED_CLASS_EXT")
        );
        end(&missing);
        let other = kernel("other", &[("scx/state", "enabled\n"), ("scx/root/ops", "rusty\n")]);
        assert_eq!(other.state(), State::Attached("rusty".into()));
        assert!(other.ensure_attachable().unwrap_err().to_string().contains("rusty"));
        assert!(!other.is_for_all());
        fs::write(other.sched_ext.join("switch_all"), "1\n").unwrap();
        assert!(other.is_for_all());
        fs::write(other.sched_ext.join("state"), "disabling\n").unwrap();
        assert!(other.ensure_attachable().unwrap_err().to_string().contains("disabling"));
        fs::write(other.sched_ext.join("state"), "disabled\n").unwrap();
        assert_eq!(other.ensure_attachable(), Ok(()));
        end_of(other);
    }

    fn end_of(kernel: Kernel) {
        fs::remove_dir_all(kernel.sched_ext.parent().unwrap()).unwrap();
    }

    #[test]
    fn cpus_are_counted_by_the_highest_number() {
        for (text, count) in
            [("0\n", Some(1)), ("0-3\n", Some(4)), ("0,2-5\n", Some(6)), ("", None), ("x", None)]
        {
            let kernel = kernel("cpus", &[("cpu/possible", text)]);
            assert_eq!(kernel.cpus().ok(), count, "{text}");
            end(&kernel);
        }
    }
}
