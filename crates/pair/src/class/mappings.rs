//! Whether a process has persistent memory mapped.
//!
//! A mapping says that a process *can* wait for persistent memory, not that it does, and nothing of which of its threads do.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
    /// Whether it is mapped with `MAP_SYNC`: the file system has said that it is persistent.
    is_sync: bool,
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
    /// A file is mapped with `MAP_SYNC`, which is for flushes by the program itself.
    Sync(PathBuf),
    /// A device or a file of a file system that has no page cache between (DAX).
    Dax(PathBuf),
    /// libpmem is loaded, and a file is mapped that others may have: it may be persistent, or stand for it.
    Library(PathBuf),
}

impl Persistent {
    /// In one line.
    fn why(&self) -> String {
        let why = match self {
            Self::Sync(path) => format!("{} is mapped with MAP_SYNC", path.display()),
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
    /// Of the process `pid`.
    ///
    /// # Errors
    ///
    /// What the kernel says: `PermissionDenied` for processes of others.
    pub fn of(pid: u32) -> io::Result<Self> {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}"));
        let text = |name| read(name).map(|text| String::from_utf8_lossy(&text).into_owned());
        let mounts = text("mountinfo")?;
        let mappings = Self::parse(&text("maps")?, &mounts);
        // Flags of mappings cost a walk of the page tables: only where a shared file makes them worth it.
        match mappings.mapped.iter().any(|mapped| mapped.is_shared && mapped.path.is_some()) {
            true => Ok(Self::parse(&text("smaps")?, &mounts)),
            false => Ok(mappings),
        }
    }

    /// By what the kernel says in `/proc/PID/maps` or `smaps`, and in `mountinfo`. What is no mapping is left out.
    pub fn parse(maps: &str, mountinfo: &str) -> Self {
        let mapped = parse(maps);
        Self { persistent: persistent(&mapped, &dax_devices(mountinfo)), mapped }
    }

    /// By what sign it has persistent memory, if it has: in one line.
    pub fn persistent(&self) -> Option<String> {
        self.persistent.as_ref().map(Persistent::why)
    }
}

/// The surest sign of all.
fn persistent(mapped: &[Mapped], dax: &[String]) -> Option<Persistent> {
    let is_library = |mapped: &Mapped| {
        let name = mapped.path.as_deref().and_then(Path::file_name);
        name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"libpmem"))
    };
    let shared = || mapped.iter().filter(|mapped| mapped.is_shared && !is_library(mapped));
    let found = |is: &dyn Fn(&Mapped) -> bool| {
        shared().filter(|mapped| is(mapped)).find_map(|mapped| mapped.path.clone())
    };
    let is_dax = |mapped: &Mapped| {
        let is_device = |path: &PathBuf| path.starts_with("/dev") && is_dax_device(path);
        mapped.path.as_ref().is_some_and(is_device) || dax.contains(&mapped.device)
    };
    let loaded = mapped.iter().any(is_library);
    found(&|mapped| mapped.is_sync)
        .map(Persistent::Sync)
        .or_else(|| found(&is_dax).map(Persistent::Dax))
        .or_else(|| found(&|_| loaded).map(Persistent::Library))
}

/// As `/dev/dax0.0`.
fn is_dax_device(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix("dax"));
    number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
}

/// Reads `/proc/PID/maps` or `smaps`; what is no mapping is left out.
fn parse(text: &str) -> Vec<Mapped> {
    let mut mapped: Vec<Mapped> = Vec::new();
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let last = mapped.last_mut();
            last.into_iter()
                .for_each(|last| last.is_sync = flags.split(' ').any(|flag| flag == "sf"));
        } else {
            mapped.extend(parse_line(line));
        }
    }
    mapped
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
    Some(Mapped {
        start,
        end,
        offset,
        path,
        is_shared: access.ends_with('s'),
        is_sync: false,
        device,
    })
}

/// The devices of file systems that are mounted with `dax` or `dax=always`, as `maps` has them: in hexadecimal, where
/// `mountinfo` has decimal numbers. With `dax=inode` some files are and some are not, which `MAP_SYNC` tells.
fn dax_devices(mountinfo: &str) -> Vec<String> {
    let device = |line: &str| {
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ');
        let (major, minor) = fields.nth(2)?.split_once(':')?;
        let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        let options = fields.nth(2)?.split(',').chain(system.split(' ').nth(2)?.split(','));
        let is_dax = |option: &str| matches!(option, "dax" | "dax=always");
        options.into_iter().any(is_dax).then(|| format!("{major:02x}:{minor:02x}"))
    };
    mountinfo.lines().filter_map(device).collect()
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

    fn found(text: &str, dax: &str) -> Option<Persistent> {
        Mappings::parse(text, dax).persistent
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
        let sync = format!("{SHARED}Size: 8 kB\nVmFlags: rd wr sh sf\n");
        let dax = "36 35 259:2 / /mnt rw,noatime - ext4 /dev/pmem0 rw,dax=always\n";
        assert_eq!(found(&format!("{LIBPMEM}{sync}"), dax), Some(Persistent::Sync(path())));
        assert_eq!(found(&format!("{LIBPMEM}{SHARED}"), dax), Some(Persistent::Dax(path())));
        assert_eq!(found(&format!("{LIBPMEM}{SHARED}"), ""), Some(Persistent::Library(path())));
        let device = "1000-3000 rw-s 00000000 00:06 5 /dev/dax0.0\n";
        assert_eq!(found(device, ""), Some(Persistent::Dax("/dev/dax0.0".into())));
    }

    #[test]
    fn what_is_no_sign_is_none() {
        let dax = "36 35 259:2 / /mnt rw - xfs /dev/pmem0 rw,dax=inode,dax=never\n";
        for text in [
            SHARED,
            LIBPMEM,
            &format!("{LIBPMEM}{PRIVATE}{NOBODYS}"),
            "1000-3000 rw-s 0 00:06 5 /dev/daxless\n",
            &format!("{SHARED}VmFlags: rd wr sh\n"),
            &format!("{LIBPMEM}1000-3000 rw-s 0 00:01 5 /dev/zero (deleted)\n"),
            &format!("{LIBPMEM}1000-3000 rw-s 0 00:0e 5 anon_inode:[perf_event]\n"),
        ] {
            assert_eq!(found(text, dax), None, "{text}");
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
