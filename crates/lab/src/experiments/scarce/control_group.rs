//! A control group with a quota of CPU time, for the time of a sample.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, io, process};

use daiko_sys::cgroup::{self, Group, Version};

use super::quota::{Limit, PERIOD, Quota, Way};
use crate::kit::{Failure, OrFailure, Skip};

/// Begin of the name of such a group. The process id of its maker and a number follow.
const NAME: &str = "daiko-lab-";

/// Chooses the way to `quota` on this machine, or returns the reason why there is none.
pub(super) fn choose(quota: Quota) -> (Limit, Result<(), Skip>) {
    let by = |way| Limit { quota, way };
    match (ControlGroup::new(quota), quota) {
        (Ok(_), _) => (by(Way::ControlGroup), Ok(())),
        (Err(_), Quota::Half) => (by(Way::Stops), Ok(())),
        (Err(skip), _) => (by(Way::ControlGroup), Err(skip)),
    }
}

/// A group, removed when this is dropped. Its processes must have ended by then.
pub(super) struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Makes a group with `quota` where this process may make one.
    ///
    /// # Errors
    /// Returns the reason if it may not, or if no control group has a quota here.
    pub(super) fn new(quota: Quota) -> Result<Self, Skip> {
        Self::below(&cgroup::of_this_process("cpu"), quota)
    }

    /// Makes a group below the first of `parents` that lets it have a quota.
    ///
    /// In version 2, a group with processes has no children with a quota, so that the group is
    /// mostly made beside that of this process, and not below.
    fn below(parents: &[Group], quota: Quota) -> Result<Self, Skip> {
        let mut reason = "there is none with the controller cpu".to_owned();
        for parent in parents {
            match Self::make(parent, quota) {
                Ok(group) => return Ok(group),
                Err(error) => reason = format!("{}: {error}", parent.directory.display()),
            }
        }
        Err(Skip::new(format!(
            "no control group with a quota ({reason}): run as root, or delegate the controller cpu"
        )))
    }

    fn make(parent: &Group, quota: Quota) -> io::Result<Self> {
        remove_abandoned(&parent.directory);
        static MADE: AtomicUsize = AtomicUsize::new(0);
        // Relaxed: only tells groups of this process apart.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = parent.directory.join(format!("{NAME}{}-{number}", process::id()));
        fs::create_dir(&directory)?;
        let group = Self(directory);
        let (time, period) = (quota.time().as_micros(), PERIOD.as_micros());
        match parent.version {
            Version::V2 => group.set("cpu.max", format!("{time} {period}"))?,
            Version::V1 => {
                group.set("cpu.cfs_period_us", period.to_string())?;
                group.set("cpu.cfs_quota_us", time.to_string())?;
            }
        }
        Ok(group)
    }

    /// Writes to a file that the kernel has made; without the controller, there is none.
    fn set(&self, file: &str, text: String) -> io::Result<()> {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).open(self.0.join(file))?;
        io::Write::write_all(&mut file, text.as_bytes())
    }

    /// Moves the calling process into the group.
    ///
    /// # Errors
    /// Fails if it must not move.
    pub(super) fn enter(&self) -> Result<(), Failure> {
        let entered = self.set("cgroup.procs", "0".into());
        entered.or_unavailable("the process under test cannot enter a control group")
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // A group that stays is removed by the next sample.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Removes the groups of samples that were killed. A group with processes stays.
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

    #[test]
    fn a_group_without_the_controller_is_refused_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        for version in [Version::V1, Version::V2] {
            let parent = Group { version, directory: folder.path().into() };
            let skip = ControlGroup::below(&[parent], Quota::Half).err().expect("a skip");
            assert!(skip.reason.contains("run as root"), "{skip}");
            assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "{version:?}");
        }
        let skip = ControlGroup::below(&[], Quota::Half).err().expect("a skip");
        assert!(skip.reason.contains("there is none"), "{skip}");
    }

    #[test]
    fn abandoned_groups_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        // More than any process id of Linux.
        let abandoned = folder.path().join(format!("{NAME}4194305-0"));
        let own = folder.path().join(format!("{NAME}{}-0", process::id()));
        let other = folder.path().join("4194305-0");
        for group in [&abandoned, &own, &other] {
            fs::create_dir(group).expect("a folder");
        }
        remove_abandoned(folder.path());
        assert_eq!([&abandoned, &own, &other].map(|group| group.exists()), [false, true, true]);
    }

    #[test]
    fn a_made_group_has_its_quota_and_ends_with_its_owner() {
        let group = match ControlGroup::new(Quota::OneAndHalf) {
            Ok(group) => group,
            Err(skip) => {
                println!("skipped: a_made_group_has_its_quota_and_ends_with_its_owner: {skip}");
                return;
            }
        };
        let directory = group.0.clone();
        let text = |file| fs::read_to_string(directory.join(file)).unwrap_or_default();
        let words = [text("cpu.max"), text("cpu.cfs_quota_us"), text("cpu.cfs_period_us")].concat();
        let words: Vec<_> = words.split_whitespace().collect();
        assert_eq!(words, ["150000", "100000"]);
        drop(group);
        assert!(!directory.exists());
    }
}
