//! Options of a segment: its users.

use daiko_sys::file::Permitted;

#[cfg(doc)]
use crate::{Reason, Segment, SegmentError};

/// Options of a [`Segment`]: the users that may use it besides this process's own, by default none.
///
/// All programs that share a segment state the same users, and no program gets a segment that other
/// users may use. The creator grants access to the users before the segment has its name, with any
/// umask, by the file's mode and group, or by an access-control list if that takes several
/// entries. A program that opens a segment refuses it if its owner is none of the users
/// ([`Reason::Denied`]), or if it grants further users any access ([`Reason::Exposed`]).
///
/// A permitted user can hinder its peers: change all values and messages, keep resources, cut a
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
    pub(super) permitted: Permitted,
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
}
