//! Cancel scopes, and the payload that unwinds a fiber out of them.

use std::fmt;

use daiko_core::cancel::ScopeMark;

use super::flags::EntryFlags;
use crate::deadline::Deadline;

/// A part of a fiber's execution. It lies in the frame of the call that runs this part.
pub struct CancelScope {
    /// The scope around this one; null: none.
    pub(super) outer: *const CancelScope,
    /// The fiber's flags at the entry.
    pub(super) entered: EntryFlags,
    /// The time at which the scope ends by itself.
    pub(super) deadline: Deadline,
    pub(super) mark: ScopeMark,
}

/// The payload of a forced unwind: by a cancel, a `time::timeout`, or a `cancel::CancelToken`;
/// `cancel::CancelToken::run` returns it.
///
/// A fiber that catches panics sees it pass, and should resume it by [`std::panic::resume_unwind`].
/// Otherwise the fiber is unwound again at its next suspension.
pub struct Cancelled {
    /// Address of the scope that the fiber unwinds out of; 0: out of all its code.
    pub(crate) scope: usize,
}

impl Cancelled {
    /// The fiber itself is cancelled.
    pub(crate) const WHOLLY: Self = Cancelled { scope: 0 };

    pub(super) fn is_wholly(&self) -> bool {
        self.scope == Self::WHOLLY.scope
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cancelled")
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it was cancelled before it came to its end")
    }
}

impl std::error::Error for Cancelled {}
