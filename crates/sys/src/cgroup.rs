//! The control groups of this process.
//!
//! Functions of the crate get the function that reads a file: from the system, or from a synthetic
//! tree.

mod made;

pub use made::{GroupLimit, MadeGroup};

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

/// Returns the text of a file; `None` if there is none.
pub(crate) type Reader<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// The two layouts in which Linux presents control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller.
    V1,
    /// One hierarchy.
    V2,
}

/// A directory of a control group that this process belongs to.
#[derive(Debug, PartialEq, Eq)]
pub struct Group {
    /// The layout of its files.
    pub version: Version,
    /// The folder of its files.
    pub directory: PathBuf,
}

impl Group {
    /// The first `N` fields of `file`; `None` where a field is missing or not a number (`max`).
    pub(crate) fn numbers<T: FromStr + Copy, const N: usize>(
        &self,
        read: Reader<'_>,
        file: &str,
    ) -> Option<[T; N]> {
        let text = read(&self.directory.join(file))?;
        let fields: Vec<T> =
            text.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        fields.get(..N)?.try_into().ok()
    }
}

/// This process's group and all its visible ancestors that `controller` may govern, in both
/// versions, from each group upwards.
///
/// # Examples
///
/// ```
/// for group in daiko_sys::cgroup::of_this_process("cpu") {
///     assert!(group.directory.is_absolute());
/// }
/// ```
pub fn of_this_process(controller: &str) -> Vec<Group> {
    groups(&text, controller)
}

/// The text of a kernel file. Names of threads and mounts inside it may be arbitrary bytes.
pub(crate) fn text(path: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

/// [`of_this_process`] with an injected file reader.
pub(crate) fn groups(read: Reader<'_>, controller: &str) -> Vec<Group> {
    let text = |file| read(Path::new(file)).unwrap_or_default();
    let mounts = text("/proc/self/mountinfo");
    let mut groups = Vec::new();
    // Not `lines`, which would remove a carriage return from the end of a name.
    for line in text("/proc/self/cgroup").split('\n') {
        let Some((version, path)) = membership(line, controller) else { continue };
        for mount in mounts.lines().filter_map(Mount::parse) {
            if mount.governs(version, controller) {
                groups.extend(mount.ancestors(version, path));
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

/// A line of mountinfo: `ID PARENT DEV ROOT POINT OPTIONS.. - TYPE SOURCE SUPER-OPTIONS`.
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
    /// Inside a container the mount may show only the part of the hierarchy below `self.root`, and
    /// the path of a group outside of it begins with `..`.
    fn ancestors(&self, version: Version, path: &str) -> Vec<Group> {
        let below =
            |path: &&Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        let inside = Path::new(path).strip_prefix(&self.root).ok().filter(below);
        let directory = |part| Group { version, directory: Path::new(&self.point).join(part) };
        inside.unwrap_or(Path::new("")).ancestors().map(directory).collect()
    }
}

/// Undoes the kernel's octal escapes of blanks and backslashes (`\040`).
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match escaped(part) {
            Some((character, rest)) => {
                plain.push(character);
                plain.push_str(rest);
            }
            None => plain.extend(["\\", part]),
        }
    }
    plain
}

/// The character that three octal digits stand for, and the text behind them.
fn escaped(text: &str) -> Option<(char, &str)> {
    let (digits, rest) = text.split_at_checked(3)?;
    // The conversion alone would take a sign.
    let byte = digits.starts_with(|first: char| first.is_ascii_digit());
    let byte = byte.then(|| u8::from_str_radix(digits, 8).ok()).flatten()?;
    Some((char::from(byte), rest))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Reads from a synthetic tree of paths and texts.
    pub(crate) fn tree(files: &[(&str, &str)]) -> impl Fn(&Path) -> Option<String> {
        |path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path)?;
            Some(file.1.to_owned())
        }
    }

    fn directories(files: &[(&str, &str)], controller: &str) -> Vec<PathBuf> {
        let groups = groups(&tree(files), controller);
        groups.into_iter().map(|group| group.directory).collect()
    }

    #[test]
    fn all_ancestors_up_to_the_mount_point_are_visited() {
        let files = [
            ("/proc/self/cgroup", "0::/a/b\n"),
            ("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ];
        let expected = ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"];
        assert_eq!(directories(&files, "cpu"), expected.map(PathBuf::from));
    }

    #[test]
    fn a_container_sees_its_part_of_the_hierarchy() {
        let files = [
            ("/proc/self/cgroup", "4:cpu,cpuacct:/docker/c0ffee/job\n3:memory:/other\n"),
            (
                "/proc/self/mountinfo",
                "33 30 0:29 /docker/c0ffee /sys/fs/cgroup/with\\040blank ro shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                 34 30 0:30 /other /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
            ),
        ];
        let expected = ["/sys/fs/cgroup/with blank/job", "/sys/fs/cgroup/with blank"];
        assert_eq!(directories(&files, "cpu"), expected.map(PathBuf::from));
        assert_eq!(directories(&files, "pids"), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn a_group_outside_of_the_mount_counts_as_its_top() {
        for (group, root) in [("/elsewhere", "/mine"), ("/../../elsewhere", "/"), ("/a", "")] {
            let files = [
                ("/proc/self/cgroup", &*format!("0::{group}\n")),
                ("/proc/self/mountinfo", &*format!("30 23 0:26 {root} /cg rw - cgroup2 x rw\n")),
            ];
            assert_eq!(directories(&files, "cpu"), [Path::new("/cg")], "{group} below {root}");
        }
    }

    #[test]
    fn nonsense_is_no_group() {
        let files = [("/proc/self/cgroup", "x\n0::\n"), ("/proc/self/mountinfo", "1 2\n")];
        assert_eq!(directories(&files, "cpu"), [""; 0].map(PathBuf::from));
        assert_eq!(directories(&[], "cpu"), [""; 0].map(PathBuf::from));
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(unescape(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescape(r"/a\9\+12"), r"/a\9\+12");
    }
}
