//! The users that may use a file of shared memory: its mode and its access-control list.
//!
//! The list is that of POSIX.1e draft 17, in the form in which Linux keeps it
//! (`include/uapi/linux/posix_acl_xattr.h`): a version, then entries of a tag, permissions and an
//! id.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::error::{FileError, Grantee, Reason, failed};

/// The attribute that holds the list.
const ACL: &std::ffi::CStr = c"system.posix_acl_access";
const VERSION: u32 = 2;
/// Size of an entry in bytes.
const ENTRY: usize = 8;
/// Largest size of an attribute in bytes.
const MOST_BYTES: usize = 64 << 10;
/// No user or group has this id; the kernel takes it for "none".
const NO_ID: u32 = u32::MAX;
const READ_WRITE: u16 = 6;

/// The tags of entries.
mod tag {
    pub(super) const OWNER: u16 = 0x01;
    pub(super) const USER: u16 = 0x02;
    pub(super) const FILE_GROUP: u16 = 0x04;
    pub(super) const GROUP: u16 = 0x08;
    pub(super) const MASK: u16 = 0x10;
    pub(super) const OTHER: u16 = 0x20;
}

/// The users that may use a file of shared memory, besides the calling process's own. None by
/// default.
///
/// The creator of a file grants access to them alone, before the file has a name. A
/// process that opens a file refuses it if it belongs to any other user, or grants any other user
/// access. So all programs that share a file state the same users.
///
/// The attacks that this stops: in a directory such as `/dev/shm` any user may create the expected
/// file first, put a link in its place, or have it replaced between a check and its opening (the
/// open file is checked again). A file that a trusted user has opened to more users, by mistake or
/// by a program that is not this one, is refused as well. A permitted user is trusted to keep
/// other users out: it could pass the memory on to them in any case.
///
/// # Examples
///
/// ```
/// use daiko_sys::file::{Permitted, Reason, SharedFile};
/// use std::os::unix::fs::MetadataExt;
///
/// let name = format!("daiko-permitted-{}", std::process::id());
/// let group = std::fs::metadata("/proc/self").unwrap().gid();
/// let permitted = Permitted::default().group(group);
/// let mut file = SharedFile::draft_for(&permitted, &name, 4096)?.publish()?;
/// assert_eq!(std::fs::metadata(file.path()).unwrap().mode() & 0o777, 0o660);
/// assert!(SharedFile::open_for(&permitted, &name).is_ok());
/// assert!(matches!(SharedFile::open(&name).unwrap_err().reason(), Reason::Exposed { .. }));
/// assert!(file.lock()?.remove()?);
/// # Ok::<(), daiko_sys::file::FileError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permitted {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
    everyone: bool,
}

impl Permitted {
    /// Permits a user, which may also be the owner of a file that is opened.
    #[must_use]
    pub fn user(mut self, id: u32) -> Self {
        self.users.insert(id);
        self
    }

    /// Permits the members of a group, none of which may be the owner of a file that is opened
    /// unless it is permitted as a [user](Self::user).
    #[must_use]
    pub fn group(mut self, id: u32) -> Self {
        self.groups.insert(id);
        self
    }

    /// Permits all users of the machine, none of which may be the owner of a file that is opened
    /// unless it is permitted as a [user](Self::user).
    #[must_use]
    pub fn everyone(mut self) -> Self {
        self.everyone = true;
        self
    }

    /// Returns true if other users than the calling process's may be permitted.
    pub fn has_others(&self) -> bool {
        *self != Self::default()
    }

    /// Grants these users access to a file that no other process can open yet. The umask does not
    /// matter.
    ///
    /// The first group that the caller may give a file to becomes the file's group. Further groups
    /// and users take an access-control list.
    pub(super) fn grant(&self, file: &File, path: &Path) -> Result<(), FileError> {
        if self.users.contains(&NO_ID) || self.groups.contains(&NO_ID) {
            return Err(FileError::new(path, Reason::BadId));
        }
        let set_mode = |mode| {
            file.set_permissions(Permissions::from_mode(mode)).map_err(|error| failed(path, error))
        };
        // The umask may have removed bits from the mode. A default list of the directory may have
        // added entries, which a wider mode would bring to life.
        set_mode(0o600)?;
        remove_list(file).map_err(|error| failed(path, error))?;
        let metadata = file.metadata().map_err(|error| failed(path, error))?;
        let group = self.groups.iter().find(|&&group| {
            group == metadata.gid() || std::os::unix::fs::fchown(file, None, Some(group)).is_ok()
        });
        let users = self.users.iter().filter(|&&user| user != metadata.uid());
        let groups = self.groups.iter().filter(|&other| Some(other) != group);
        if self.everyone {
            set_mode(0o666)?;
        } else if users.clone().chain(groups.clone()).next().is_none() {
            set_mode(if group.is_some() { 0o660 } else { 0o600 })?;
        } else {
            let of_group = if group.is_some() { READ_WRITE } else { 0 };
            let entries = [(tag::OWNER, READ_WRITE, NO_ID)].into_iter();
            let entries = entries
                .chain(users.map(|&user| (tag::USER, READ_WRITE, user)))
                .chain([(tag::FILE_GROUP, of_group, NO_ID)])
                .chain(groups.map(|&group| (tag::GROUP, READ_WRITE, group)))
                .chain([(tag::MASK, READ_WRITE, NO_ID), (tag::OTHER, 0, NO_ID)]);
            set_list(file, path, entries)?;
        }
        // Some file systems ignore a mode, or have one of their own for all files.
        self.check_grants(file, path)
    }

    /// Returns true if a file of this user may be opened.
    pub(super) fn is_owner(&self, user: u32) -> bool {
        // SAFETY: `geteuid` takes nothing and cannot fail.
        user == unsafe { libc::geteuid() } || self.users.contains(&user)
    }

    /// Refuses a file that grants access to other users.
    pub(super) fn check_grants(&self, file: &File, path: &Path) -> Result<(), FileError> {
        let grantees = grantees(file).map_err(|error| failed(path, error))?;
        let is_permitted = |to: &Grantee| match *to {
            _ if self.everyone => true,
            Grantee::Everyone => false,
            Grantee::User(user) => self.is_owner(user),
            Grantee::Group(group) => self.groups.contains(&group),
        };
        match grantees.into_iter().find(|to| !is_permitted(to)) {
            Some(to) => Err(FileError::new(path, Reason::Exposed { to })),
            None => Ok(()),
        }
    }
}

/// Returns the users that the file grants any access to, besides its owner.
pub(super) fn grantees(file: &File) -> io::Result<Vec<Grantee>> {
    let metadata = file.metadata()?;
    let mode = metadata.mode();
    let (group, other) = (Grantee::Group(metadata.gid()), Grantee::Everyone);
    let Some(list) = list_of(file)? else {
        let granted = [(mode & 0o070, group), (mode & 0o007, other)];
        return Ok(granted
            .into_iter()
            .filter_map(|(bits, to)| (bits != 0).then_some(to))
            .collect());
    };
    let mask = list.iter().find(|entry| entry.0 == tag::MASK).map_or(7, |entry| entry.1);
    let granted = list.into_iter().filter_map(|(tag, bits, id)| {
        let (to, bits) = match tag {
            tag::USER => (Grantee::User(id), bits & mask),
            tag::FILE_GROUP => (group, bits & mask),
            tag::GROUP => (Grantee::Group(id), bits & mask),
            tag::OTHER => (other, bits),
            _ => return None,
        };
        (bits != 0).then_some(to)
    });
    Ok(granted.collect())
}

/// Returns the entries of the file's list: tag, permissions, id. `None` if it has none.
fn list_of(file: &File) -> io::Result<Option<Vec<(u16, u16, u32)>>> {
    let mut bytes = vec![0; MOST_BYTES];
    // SAFETY: the name ends in a zero byte, and the buffer is live and of that size.
    let len = unsafe {
        libc::fgetxattr(file.as_raw_fd(), ACL.as_ptr(), bytes.as_mut_ptr().cast(), bytes.len())
    };
    let Ok(len) = usize::try_from(len) else { return none(io::Error::last_os_error()) };
    let (head, entries) = bytes[..len].split_at_checked(4).ok_or(io::ErrorKind::InvalidData)?;
    if head != VERSION.to_le_bytes() || entries.len() % ENTRY != 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let entries = entries.chunks_exact(ENTRY).map(|entry| {
        let half = |at| u16::from_le_bytes([entry[at], entry[at + 1]]);
        (half(0), half(2), u32::from(half(6)) << 16 | u32::from(half(4)))
    });
    Ok(Some(entries.collect()))
}

fn set_list(
    file: &File,
    path: &Path,
    entries: impl Iterator<Item = (u16, u16, u32)>,
) -> Result<(), FileError> {
    let mut bytes = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    let (value, len) = (bytes.as_ptr().cast(), bytes.len());
    // SAFETY: the name ends in a zero byte, and the value is live and of that size.
    if unsafe { libc::fsetxattr(file.as_raw_fd(), ACL.as_ptr(), value, len, 0) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            Err(FileError::new(path, Reason::NoList))
        }
        error => Err(failed(path, error)),
    }
}

fn remove_list(file: &File) -> io::Result<()> {
    // SAFETY: the name ends in a zero byte.
    match unsafe { libc::fremovexattr(file.as_raw_fd(), ACL.as_ptr()) } {
        0 => Ok(()),
        _ => none(io::Error::last_os_error()).map(|_: Option<()>| ()),
    }
}

/// Translates the error of a file without a list, or of a file system without lists, to `None`.
fn none<T>(error: io::Error) -> io::Result<Option<T>> {
    match error.raw_os_error() {
        Some(libc::ENODATA | libc::EOPNOTSUPP) => Ok(None),
        _ => Err(error),
    }
}
