//! Where this process stands in the control groups.
//!
//! The files are looked up below a root directory, `/` in production and a made-up tree in tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The two layouts in which Linux presents control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// A directory of a control group that this process belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) version: Version,
    pub(crate) directory: PathBuf,
}

impl Group {
    /// The first `N` fields of `file`; `None` where a field is missing or not a number (`max`).
    pub(crate) fn numbers<T: FromStr + Copy, const N: usize>(&self, file: &str) -> Option<[T; N]> {
        let text = fs::read_to_string(self.directory.join(file)).ok()?;
        let fields: Vec<T> =
            text.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        fields.get(..N)?.try_into().ok()
    }
}

/// This process's group and all its visible ancestors that `controller` governs, in both versions.
pub(crate) fn groups(root: &Path, controller: &str) -> Vec<Group> {
    let read = |file| fs::read_to_string(root.join(file)).unwrap_or_default();
    let mounts = read("proc/self/mountinfo");
    let mut groups = Vec::new();
    for line in read("proc/self/cgroup").lines() {
        let Some((version, path)) = membership(line, controller) else { continue };
        for mount in mounts.lines().filter_map(Mount::parse) {
            if mount.governs(version, controller) {
                groups.extend(mount.ancestors(root, version, path));
            }
        }
    }
    groups
}

/// Reads a line `ID:CONTROLLERS:PATH`; version 2 has neither id nor controllers.
fn membership<'a>(line: &'a str, controller: &str) -> Option<(Version, &'a str)> {
    let mut fields = line.splitn(3, ':');
    let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    if id == "0" && controllers.is_empty() {
        return Some((Version::V2, path));
    }
    controllers.split(',').any(|name| name == controller).then_some((Version::V1, path))
}

/// What a line of mountinfo says: `ID PARENT DEV ROOT POINT OPTIONS.. - TYPE SOURCE SUPER-OPTIONS`.
struct Mount<'a> {
    root: String,
    point: String,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let mut kind = kind.split(' ');
        Some(Self {
            root: unescape(place.next()?),
            point: unescape(place.next()?),
            kind: kind.next()?,
            options: kind.nth(1)?,
        })
    }

    fn governs(&self, version: Version, controller: &str) -> bool {
        match version {
            Version::V1 => {
                self.kind == "cgroup" && self.options.split(',').any(|name| name == controller)
            }
            Version::V2 => self.kind == "cgroup2",
        }
    }

    /// The directories from the group at `path` up to the mount point.
    ///
    /// Inside a container the mount may show only the part of the hierarchy below `self.root`.
    fn ancestors(&self, root: &Path, version: Version, path: &str) -> Vec<Group> {
        let inside = Path::new(path).strip_prefix(&self.root).unwrap_or(Path::new(""));
        let top = root.join(self.point.trim_start_matches('/'));
        inside.ancestors().map(|part| Group { version, directory: top.join(part) }).collect()
    }
}

/// Undoes the kernel's octal escapes of blanks and backslashes (`\040`).
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(char::from(byte));
                plain.push_str(&part[3..]);
            }
            None => plain.extend(["\\", part]),
        }
    }
    plain
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// A made-up file tree that disappears when dropped.
    pub(crate) struct Tree(PathBuf);

    impl Tree {
        pub(crate) fn new(files: &[(&str, &str)]) -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let name = format!("daiko-sys-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
            let tree = Self(std::env::temp_dir().join(name));
            for (path, text) in files {
                let path = tree.0.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            tree
        }

        pub(crate) fn root(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn directories(tree: &Tree, controller: &str) -> Vec<String> {
        groups(tree.root(), controller)
            .iter()
            .map(|group| {
                let below = group.directory.strip_prefix(tree.root()).unwrap();
                below.to_str().unwrap().to_owned()
            })
            .collect()
    }

    #[test]
    fn all_ancestors_up_to_the_mount_point_are_visited() {
        let tree = Tree::new(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ]);
        let expected = ["sys/fs/cgroup/a/b", "sys/fs/cgroup/a", "sys/fs/cgroup"];
        assert_eq!(directories(&tree, "cpu"), expected);
    }

    #[test]
    fn a_container_sees_its_part_of_the_hierarchy() {
        let tree = Tree::new(&[
            ("proc/self/cgroup", "4:cpu,cpuacct:/docker/c0ffee/job\n3:memory:/other\n"),
            (
                "proc/self/mountinfo",
                "33 30 0:29 /docker/c0ffee /sys/fs/cgroup/with\\040blank ro shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                 34 30 0:30 /other /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
            ),
        ]);
        let expected = ["sys/fs/cgroup/with blank/job", "sys/fs/cgroup/with blank"];
        assert_eq!(directories(&tree, "cpu"), expected);
        assert_eq!(directories(&tree, "pids"), [""; 0]);
    }

    #[test]
    fn a_group_outside_of_the_mount_counts_as_its_top() {
        let tree = Tree::new(&[
            ("proc/self/cgroup", "0::/elsewhere\n"),
            ("proc/self/mountinfo", "30 23 0:26 /mine /cg rw - cgroup2 cgroup2 rw\n"),
        ]);
        assert_eq!(directories(&tree, "cpu"), ["cg"]);
    }

    #[test]
    fn nonsense_is_no_group() {
        let tree = Tree::new(&[("proc/self/cgroup", "x\n0::\n"), ("proc/self/mountinfo", "1 2\n")]);
        assert_eq!(directories(&tree, "cpu"), [""; 0]);
        assert_eq!(directories(&Tree::new(&[]), "cpu"), [""; 0]);
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(unescape(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescape(r"/a\9"), r"/a\9");
    }
}
