//! Options of a segment: its users.

use std::os::fd::BorrowedFd;
use std::path::Path;

use daiko_sys::file::Permitted;

use super::{Segment, create};
use crate::error::SegmentError;
#[cfg(doc)]
use daiko_sys::file::Reason;

/// Options of a [`Segment`]: the users that may use it besides this process's own, by default none.
///
/// All programs that share a segment state the same users, and no program gets a segment that other
/// users may use. The creator grants access to the users before the segment has its name, whatever
/// the umask, by the file's mode and group, or by an access-control list if that takes several
/// entries. A program that opens a segment refuses it if its owner is none of the users
/// ([`Reason::Denied`]), or if it grants any access to others ([`Reason::Exposed`]).
///
/// A permitted user can hinder the others: change all values and messages, keep resources, cut a
/// segment with a name short ([`SegmentError::Truncated`]), and pass the memory on. Permit users
/// that are trusted to that extent. It cannot corrupt the memory of another process, or make one
/// wait beyond a deadline. The owner of a segment with a name, and root, alone can remove the name
/// in a folder such as `/dev/shm`.
///
/// Which processes live is known across users as well, if `/proc` shows them (it may be mounted
/// with `hidepid`; the segment is refused then: [`SegmentError::Unwatchable`]).
///
/// ```
/// # mod daiko { pub mod shm { pub use daiko_ipc::*; } }
/// use daiko::shm::Segment;
/// use std::os::unix::fs::MetadataExt;
///
/// let name = format!("daiko-doc-users-{}", std::process::id());
/// let group = std::fs::metadata("/proc/self")?.gid();
/// let options = Segment::options().group(group);
/// let segment = options.create(&name, 1 << 20)?;
/// // A member of the group does this. It names the owner of the segment by `user`.
/// let same = options.open(&name)?;
/// assert!(Segment::open(&name).is_err(), "this program expects it to be for one user");
/// segment.remove()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SegmentOptions {
    permitted: Permitted,
}

impl SegmentOptions {
    /// Permits the user with this id, which may also be the segment's creator.
    pub fn user(mut self, id: u32) -> Self {
        self.permitted = self.permitted.user(id);
        self
    }

    /// Permits the members of the group with this id. The segment's creator has to be permitted as
    /// a [user](Self::user), as the members of a group may change.
    pub fn group(mut self, id: u32) -> Self {
        self.permitted = self.permitted.group(id);
        self
    }

    /// Permits all users of the machine. The segment's creator has to be permitted as a
    /// [user](Self::user).
    pub fn everyone(mut self) -> Self {
        self.permitted = self.permitted.everyone();
        self
    }

    /// Creates a segment for these users, as [`Segment::create`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`Segment::create`]; [`Reason::NoList`] if the file system has no
    /// access-control lists, which more than one user or group takes.
    pub fn create(&self, name: impl AsRef<Path>, bytes: usize) -> Result<Segment, SegmentError> {
        create::create(&self.permitted, name.as_ref(), bytes)
    }

    /// Attaches to a segment of these users, as [`Segment::open`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`Segment::open`].
    pub fn open(&self, name: impl AsRef<Path>) -> Result<Segment, SegmentError> {
        create::open(&self.permitted, name.as_ref())
    }

    /// Attaches to a segment of these users, or creates it, as [`Segment::open_or_create`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`Segment::open_or_create`] and [`create`](Self::create).
    pub fn open_or_create(
        &self,
        name: impl AsRef<Path>,
        bytes: usize,
    ) -> Result<Segment, SegmentError> {
        create::open_or_create(&self.permitted, name.as_ref(), bytes)
    }

    /// Creates a segment without a name for these users, as [`Segment::anonymous`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`create`](Self::create).
    pub fn anonymous(&self, bytes: usize) -> Result<Segment, SegmentError> {
        create::anonymous(&self.permitted, bytes)
    }

    /// Attaches to a segment without a name, of these users, as [`Segment::from_fd`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`Segment::from_fd`].
    pub fn from_fd(&self, descriptor: BorrowedFd<'_>) -> Result<Segment, SegmentError> {
        create::from_fd(&self.permitted, descriptor)
    }
}
