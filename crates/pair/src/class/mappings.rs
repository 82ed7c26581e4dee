//! Detection of mapped persistent memory.
//!
//! A mapping proves that a process *can* wait for persistent memory, not that it does, and says
//! nothing about single threads.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use daiko_sys::file;

/// A range of addresses, and the file behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    pub(super) start: u64,
    end: u64,
    pub(super) offset: u64,
    /// `None` if no file is behind it.
    pub(super) path: Option<PathBuf>,
    /// True if stores reach the file.
    is_shared: bool,
    /// Major and minor number of the file's device.
    device: String,
}

impl Mapped {
    pub(super) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// Evidence that a process has mapped persistent memory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Persistent {
    /// A device or a file without a page cache in between (DAX). All `MAP_SYNC` mappings are of
    /// this kind.
    Dax(PathBuf),
    /// libpmem is loaded and a shared file is mapped, which is persistent or emulates persistence.
    Library(PathBuf),
}

impl Persistent {
    /// The evidence in one line.
    fn why(&self) -> String {
        let why = match self {
            Self::Dax(path) => format!("{} is mapped by DAX", path.display()),
            Self::Library(path) => format!("libpmem is loaded and {} is mapped", path.display()),
        };
        // A path may contain any characters.
        why.replace(char::is_control, "?")
    }
}

/// The mappings of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mappings {
    pub(super) mapped: Vec<Mapped>,
    persistent: Option<Persistent>,
}

impl Mappings {
    /// Reads the mappings of a process, through a thread of it that has not ended.
    ///
    /// # Errors
    ///
    /// The kernel's error: `PermissionDenied` for processes of another user.
    pub fn of(thread: u32) -> io::Result<Self> {
        let read = |name: &str| fs::read(format!("/proc/{thread}/{name}"));
        let text = |name| read(name).map(|text| String::from_utf8_lossy(&text).into_owned());
        // A file that was removed or renamed cannot be checked.
        let is_dax = |path: &Path| {
            seen_by(thread, path).is_some_and(|path| file::is_dax(&path).unwrap_or(false))
        };
        Ok(Self::parse(&text("maps")?, &text("mountinfo")?, is_dax))
    }

    /// Parses `/proc/PID/maps` and `mountinfo`, with a check for single files. Invalid lines are
    /// skipped.
    pub fn parse(maps: &str, mountinfo: &str, is_dax: impl Fn(&Path) -> bool) -> Self {
        let (mapped, mounts) = (parse(maps), dax_mounts(mountinfo));
        let persistent = persistent(&mapped, |mapped, path| {
            let has = |(device, all): &(_, _)| *device == mapped.device && (*all || is_dax(path));
            is_dax_device(path) || mounts.iter().any(has)
        });
        Self { mapped, persistent }
    }

    /// The evidence of persistent memory in one line, if there is any.
    pub fn persistent(&self) -> Option<String> {
        self.persistent.as_ref().map(Persistent::why)
    }
}

/// Translates a path in the view of another process's thread; `None` for a relative path.
pub(super) fn seen_by(thread: u32, path: &Path) -> Option<PathBuf> {
    let root = PathBuf::from(format!("/proc/{thread}/root"));
    Some(root.join(path.strip_prefix("/").ok()?))
}

/// The strongest evidence.
fn persistent(mapped: &[Mapped], is_dax: impl Fn(&Mapped, &Path) -> bool) -> Option<Persistent> {
    let is_library = |mapped: &Mapped| {
        let name = mapped.path.as_deref().and_then(Path::file_name);
        name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"libpmem"))
    };
    let shared = mapped.iter().filter(|mapped| mapped.is_shared && !is_library(mapped));
    let mut files = shared.filter_map(|mapped| Some((mapped, mapped.path.as_ref()?)));
    let first = files.clone().next().filter(|_| mapped.iter().any(is_library));
    let dax = files.find(|(mapped, path)| is_dax(mapped, path));
    dax.map(|(_, path)| Persistent::Dax(path.clone()))
        .or_else(|| first.map(|(_, path)| Persistent::Library(path.clone())))
}

/// Returns true for devices like `/dev/dax0.0`.
fn is_dax_device(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix("dax")).unwrap_or_default();
    path.starts_with("/dev") && number.starts_with(|first: char| first.is_ascii_digit())
}

/// Parses `/proc/PID/maps`. Invalid lines are skipped.
fn parse(text: &str) -> Vec<Mapped> {
    text.lines().filter_map(parse_line).collect()
}

/// Parses `START-END ACCESS OFFSET MAJOR:MINOR INODE [PATH]`. The path may contain any characters.
fn parse_line(line: &str) -> Option<Mapped> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    let access = fields.next().filter(|access| access.len() == 4)?;
    let offset = number(fields.next()?)?;
    let device = fields.next()?.to_owned();
    // Shared memory without a file is listed as /dev/zero; the kernel's rings have names without a
    // slash.
    let is_file = |path: &&str| path.starts_with('/') && !path.starts_with("/dev/zero");
    let path = fields.nth(1).map(str::trim_start).filter(is_file).map(PathBuf::from);
    Some(Mapped { start, end, offset, path, is_shared: access.ends_with('s'), device })
}

/// The devices of file systems with DAX, in the format of `maps`, each with true if all of its
/// files use DAX.
fn dax_mounts(mountinfo: &str) -> BTreeSet<(String, bool)> {
    mountinfo.lines().filter_map(dax_mount).collect()
}

/// Parses a line of `mountinfo`, which has devices in decimal numbers, unlike `maps`.
fn dax_mount(line: &str) -> Option<(String, bool)> {
    let (mount, system) = line.split_once(" - ")?;
    let (mut mount, mut system) = (mount.split(' '), system.split(' '));
    let (major, minor) = mount.nth(2)?.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    // Without an option, and with `dax=inode`, these two decide per file. Other file systems may
    // take long to answer for a file.
    let by_file = matches!(system.next()?, "ext4" | "xfs");
    let mut options = mount.nth(2)?.split(',').chain(system.nth(1)?.split(','));
    let all = match options.find(|option| *option == "dax" || option.starts_with("dax=")) {
        Some("dax" | "dax=always") => true,
        Some("dax=inode") | None if by_file => false,
        _ => return None,
    };
    Some((format!("{major:02x}:{minor:02x}"), all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIBPMEM: &str =
        "7f00-7f10 r-xp 00001000 08:01 11 /usr/lib/x86_64-linux-gnu/libpmem.so.1.0.0\n";
    const SHARED: &str = "1000-3000 rw-s 00002000 103:02 12                    /mnt/a pool\n";
    const PRIVATE: &str = "4000-5000 rw-p 00000000 103:02 12 /mnt/a pool\n";
    const ANONYMOUS: &str = "5000-6000 rw-s 00000000 00:01 0\n";

    fn found(text: &str, mounts: &str) -> Option<Persistent> {
        Mappings::parse(text, mounts, |_| false).persistent
    }

    #[test]
    fn a_mapping_has_its_file_with_its_name_whole() {
        let mapped = parse(SHARED);
        assert_eq!(mapped.len(), 1);
        assert_eq!(mapped[0].path.as_deref(), Some(Path::new("/mnt/a pool")));
        assert_eq!((mapped[0].start, mapped[0].end, mapped[0].offset), (0x1000, 0x3000, 0x2000));
        assert!(mapped[0].is_shared && mapped[0].contains(0x2fff) && !mapped[0].contains(0x3000));
        assert_eq!(parse(ANONYMOUS)[0].path, None);
    }

    #[test]
    fn the_surest_sign_is_told() {
        let path = || PathBuf::from("/mnt/a pool");
        let dax = "36 35 259:2 / /mnt rw,noatime - ext4 /dev/pmem0 rw,dax=always\n";
        assert_eq!(found(&format!("{LIBPMEM}{SHARED}"), dax), Some(Persistent::Dax(path())));
        assert_eq!(found(&format!("{LIBPMEM}{SHARED}"), ""), Some(Persistent::Library(path())));
        let device = "1000-3000 rw-s 00000000 00:06 5 /dev/dax0.0\n";
        assert_eq!(found(device, ""), Some(Persistent::Dax("/dev/dax0.0".into())));
    }

    #[test]
    fn similar_mappings_are_no_sign() {
        let dax = "36 35 259:2 / /mnt rw - xfs /dev/pmem0 rw,dax=never\n";
        for text in [
            SHARED,
            LIBPMEM,
            &format!("{LIBPMEM}{PRIVATE}{ANONYMOUS}"),
            "1000-3000 rw-s 0 00:06 5 /dev/daxless\n",
            &format!("{LIBPMEM}1000-3000 rw-s 0 00:01 5 /dev/zero (deleted)\n"),
            &format!("{LIBPMEM}1000-3000 rw-s 0 00:0e 5 anon_inode:[perf_event]\n"),
        ] {
            assert_eq!(found(text, dax), None, "{text}");
        }
    }

    #[test]
    fn a_file_system_that_has_files_say_so_is_asked_for_each() {
        let told = |system: &str, is: &str| {
            let mounts = format!("36 35 259:2 / /mnt rw - {system}\n");
            Mappings::parse(SHARED, &mounts, |path| path == Path::new(is)).persistent.is_some()
        };
        for system in ["ext4 /dev/pmem0 rw", "xfs /dev/pmem0 rw,dax=inode"] {
            assert!(told(system, "/mnt/a pool") && !told(system, "/mnt/another"), "{system}");
        }
        for system in ["ext4 /dev/pmem0 rw,dax=never", "nfs4 host:/ rw"] {
            assert!(!told(system, "/mnt/a pool"), "{system}");
        }
    }

    #[test]
    fn this_process_has_its_program_mapped() {
        let mappings = Mappings::of(std::process::id()).unwrap();
        let own = std::env::current_exe().unwrap();
        assert!(mappings.mapped.iter().any(|mapped| mapped.path.as_ref() == Some(&own)));
        assert_eq!(Mappings::of(u32::MAX).err().unwrap().kind(), io::ErrorKind::NotFound);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: String, mounts: String) {
            found(&text, &mounts);
        }
    }
}
