//! A control group that this process has made.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, process};

use super::{Group, Version, of_this_process};
use crate::atomic::{AtomicUsize, Ordering};

/// Begin of the name of such a group. The process id of its maker and a number follow.
const NAME: &str = "daiko-made-";
/// The file through which a process enters a group.
const MEMBERS: &str = "cgroup.procs";

/// A limit of a control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupLimit {
    /// CPU time that all processes of the group get.
    Cpu {
        /// The time in each period.
        time: Duration,
        /// The length of a period.
        period: Duration,
    },
    /// Number of threads of all processes of the group.
    Threads(usize),
}

impl GroupLimit {
    fn controller(self) -> &'static str {
        match self {
            Self::Cpu { .. } => "cpu",
            Self::Threads(_) => "pids",
        }
    }

    /// The files to write, and their texts.
    fn settings(self, version: Version) -> Vec<(&'static str, String)> {
        match (self, version) {
            (Self::Cpu { time, period }, Version::V2) => {
                vec![("cpu.max", format!("{} {}", time.as_micros(), period.as_micros()))]
            }
            (Self::Cpu { time, period }, Version::V1) => vec![
                ("cpu.cfs_period_us", period.as_micros().to_string()),
                ("cpu.cfs_quota_us", time.as_micros().to_string()),
            ],
            (Self::Threads(most), _) => vec![("pids.max", most.to_string())],
        }
    }
}

/// A control group with a limit, removed when this is dropped. Its processes must have ended or
/// [left](Self::leave) by then.
#[derive(Debug)]
pub struct MadeGroup {
    directory: PathBuf,
    /// The group of this process before.
    origin: PathBuf,
}

impl MadeGroup {
    /// Makes a group with `limit` where this process may make one.
    ///
    /// # Errors
    /// Fails if it may not, or if no control group has such a limit here. The error tells the
    /// remedy.
    ///
    /// # Examples
    ///
    /// ```
    /// use daiko_sys::cgroup::{GroupLimit, MadeGroup};
    ///
    /// match MadeGroup::new(GroupLimit::Threads(100)) {
    ///     Ok(group) => {
    ///         group.enter()?;
    ///         assert!(daiko_sys::limits::cgroup_pids() <= Some(100));
    ///         group.leave()?;
    ///     }
    ///     Err(error) => assert!(error.to_string().contains("run as root")),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(limit: GroupLimit) -> io::Result<Self> {
        Self::below(&of_this_process(limit.controller()), limit)
    }

    /// Makes a group below the first of `parents` that lets it have the limit.
    ///
    /// In version 2, a group with processes has no children with limits, so that the group is
    /// mostly made beside that of this process, and not below.
    fn below(parents: &[Group], limit: GroupLimit) -> io::Result<Self> {
        let controller = limit.controller();
        let mut reason = format!("there is none with the controller {controller}");
        for parent in parents {
            match Self::make(
                &parent.directory,
                &parents[0].directory,
                limit.settings(parent.version),
            ) {
                Ok(group) => return Ok(group),
                Err(error) => reason = format!("{}: {error}", parent.directory.display()),
            }
        }
        Err(io::Error::other(format!(
            "no control group can be made ({reason}): run as root, or delegate the controller \
             {controller}"
        )))
    }

    fn make(parent: &Path, origin: &Path, settings: Vec<(&str, String)>) -> io::Result<Self> {
        remove_abandoned(parent);
        static MADE: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: only tells groups of this process apart.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = parent.join(format!("{NAME}{}-{number}", process::id()));
        fs::create_dir(&directory)?;
        let group = Self { directory, origin: origin.into() };
        settings.iter().try_for_each(|(file, text)| write(&group.directory.join(file), text))?;
        Ok(group)
    }

    /// Makes a group inside this one, without a limit of its own.
    ///
    /// # Errors
    /// Fails if the kernel refuses it, as beyond a limit of groups.
    pub fn nested(&self) -> io::Result<Self> {
        Self::make(&self.directory, &self.origin, Vec::new())
    }

    /// Moves the calling process into the group.
    ///
    /// # Errors
    /// Fails if it must not move.
    pub fn enter(&self) -> io::Result<()> {
        write(&self.directory.join(MEMBERS), "0")
    }

    /// Moves the calling process to the group that it was in when this one was made.
    ///
    /// # Errors
    /// Fails if it must not move.
    pub fn leave(&self) -> io::Result<()> {
        write(&self.origin.join(MEMBERS), "0")
    }
}

impl Drop for MadeGroup {
    fn drop(&mut self) {
        // A group that stays is removed when the next one is made.
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Writes to a file that the kernel has made; without the controller, there is none.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(file)?;
    io::Write::write_all(&mut file, text.as_bytes())
}

/// Removes the groups of makers that were killed. A group with processes stays.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if maker(&entry.file_name().to_string_lossy()).is_some_and(|maker| !is_alive(maker)) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The process that made the group of this name.
fn maker(name: &str) -> Option<u32> {
    name.strip_prefix(NAME)?.split_once('-')?.0.parse().ok()
}

fn is_alive(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_AND_HALF: GroupLimit =
        GroupLimit::Cpu { time: Duration::from_millis(150), period: Duration::from_millis(100) };

    #[test]
    fn a_group_without_the_controller_is_refused_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        for version in [Version::V1, Version::V2] {
            for limit in [ONE_AND_HALF, GroupLimit::Threads(9)] {
                let parent = Group { version, directory: folder.path().into() };
                let error = MadeGroup::below(&[parent], limit).unwrap_err().to_string();
                assert!(error.contains("run as root"), "{error}");
                assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{version:?}");
            }
        }
        let error = MadeGroup::below(&[], ONE_AND_HALF).unwrap_err().to_string();
        assert!(error.contains("there is none with the controller cpu"), "{error}");
    }

    #[test]
    fn abandoned_groups_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        // More than any process id of Linux.
        let abandoned = folder.path().join(format!("{NAME}4194305-0"));
        let own = folder.path().join(format!("{NAME}{}-0", process::id()));
        let other = folder.path().join("4194305-0");
        for group in [&abandoned, &own, &other] {
            fs::create_dir(group).unwrap();
        }
        remove_abandoned(folder.path());
        assert_eq!([&abandoned, &own, &other].map(|group| group.exists()), [false, true, true]);
    }

    #[test]
    fn a_made_group_has_its_limit_and_ends_with_its_owner() {
        for (limit, expected) in
            [(ONE_AND_HALF, &["150000", "100000"][..]), (GroupLimit::Threads(9), &["9"])]
        {
            let group = match MadeGroup::new(limit) {
                Ok(group) => group,
                Err(error) => {
                    println!(
                        "skipped: a_made_group_has_its_limit_and_ends_with_its_owner: {error}"
                    );
                    continue;
                }
            };
            let directory = group.directory.clone();
            let text = |file| fs::read_to_string(directory.join(file)).unwrap_or_default();
            let files = ["cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us", "pids.max"];
            let words = files.map(text).concat();
            assert_eq!(words.split_whitespace().collect::<Vec<_>>(), expected);
            drop(group);
            assert!(!directory.exists());
        }
    }
}
