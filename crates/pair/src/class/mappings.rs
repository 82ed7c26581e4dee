//! Whether a process has persistent memory mapped.
//!
//! A mapping says that a process *can* wait for persistent memory, not that it does, and nothing of which of its threads do.

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
    /// Whether what is written there reaches the file.
    is_shared: bool,
    /// Major and minor number of the device of the file.
    device: String,
}

impl Mapped {
    pub(super) fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// How a process has persistent memory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Persistent {
    /// A device or a file that has no page cache between (DAX), as whatever is mapped with `MAP_SYNC`.
    Dax(PathBuf),
    /// libpmem is loaded, and a file is mapped that others may have: it may be persistent, or stand for it.
    Library(PathBuf),
}

impl Persistent {
    /// In one line.
    fn why(&self) -> String {
        let why = match self {
            Self::Dax(path) => format!("{} is mapped by DAX", path.display()),
            Self::Library(path) => format!("libpmem is loaded and {} is mapped", path.display()),
        };
        // A path may have any characters.
        why.replace(char::is_control, "?")
    }
}

/// What a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mappings {
    pub(super) mapped: Vec<Mapped>,
    persistent: Option<Persistent>,
}

impl Mappings {
    /// Of a process, by the id of a thread of it that has not ended: there is nothing to be read of one that has.
    ///
    /// # Errors
    ///
    /// What the kernel says: `PermissionDenied` for processes of others.
    pub fn of(thread: u32) -> io::Result<Self> {
        let read = |name: &str| fs::read(format!("/proc/{thread}/{name}"));
        let text = |name| read(name).map(|text| String::from_utf8_lossy(&text).into_owned());
        // Of a file that is not there under its name any more nothing is known.
        let is_dax = |path: &Path| {
            seen_by(thread, path).is_some_and(|path| file::is_dax(&path).unwrap_or(false))
        };
        Ok(Self::parse(&text("maps")?, &text("mountinfo")?, is_dax))
    }

    /// By what the kernel says in `/proc/PID/maps` and `mountinfo`, and of single files. What is no mapping is left out.
    pub fn parse(maps: &str, mountinfo: &str, is_dax: impl Fn(&Path) -> bool) -> Self {
        let (mapped, mounts) = (parse(maps), dax_mounts(mountinfo));
        let persistent = persistent(&mapped, |mapped, path| {
            let has = |(device, all): &(_, _)| *device == mapped.device && (*all || is_dax(path));
            is_dax_device(path) || mounts.iter().any(has)
        });
        Self { mapped, persistent }
    }

    /// By what sign it has persistent memory, if it has: in one line.
    pub fn persistent(&self) -> Option<String> {
        self.persistent.as_ref().map(Persistent::why)
    }
}

/// Where a path leads that a thread of another process sees; `None` for one that leads nowhere.
pub(super) fn seen_by(thread: u32, path: &Path) -> Option<PathBuf> {
    let root = PathBuf::from(format!("/proc/{thread}/root"));
    Some(root.join(path.strip_prefix("/").ok()?))
}

/// The surest sign of all.
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

/// As `/dev/dax0.0`.
fn is_dax_device(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix("dax")).unwrap_or_default();
    path.starts_with("/dev") && number.starts_with(|first: char| first.is_ascii_digit())
}

/// Reads `/proc/PID/maps`; what is no mapping is left out.
fn parse(text: &str) -> Vec<Mapped> {
    text.lines().filter_map(parse_line).collect()
}

/// `START-END ACCESS OFFSET MAJOR:MINOR INODE [PATH]`; the path may have any characters.
fn parse_line(line: &str) -> Option<Mapped> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    let access = fields.next().filter(|access| access.len() == 4)?;
    let offset = number(fields.next()?)?;
    let device = fields.next()?.to_owned();
    // What processes share without a file is said to be /dev/zero; rings of the kernel's have names without a slash.
    let is_file = |path: &&str| path.starts_with('/') && !path.starts_with("/dev/zero");
    let path = fields.nth(1).map(str::trim_start).filter(is_file).map(PathBuf::from);
    Some(Mapped { start, end, offset, path, is_shared: access.ends_with('s'), device })
}

/// File systems whose files may be mapped by DAX: their devices, as `maps` has them, and whether all files are.
fn dax_mounts(mountinfo: &str) -> BTreeSet<(String, bool)> {
    mountinfo.lines().filter_map(dax_mount).collect()
}

/// `mountinfo` has devices in decimal numbers, where `maps` has hexadecimal ones.
fn dax_mount(line: &str) -> Option<(String, bool)> {
    let (mount, system) = line.split_once(" - ")?;
    let (mut mount, mut system) = (mount.split(' '), system.split(' '));
    let (major, minor) = mount.nth(2)?.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    // Without an option, as with `dax=inode`, these let each file say so itself. Others may take long to answer for a file.
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
    const NOBODYS: &str = "5000-6000 rw-s 00000000 00:01 0\n";

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
        assert_eq!(parse(NOBODYS)[0].path, None);
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
    fn what_is_no_sign_is_none() {
        let dax = "36 35 259:2 / /mnt rw - xfs /dev/pmem0 rw,dax=never\n";
        for text in [
            SHARED,
            LIBPMEM,
            &format!("{LIBPMEM}{PRIVATE}{NOBODYS}"),
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
