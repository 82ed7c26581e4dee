//! The objects that a runtime section takes or lends, and the way to recover each of them.
//!
//! It lies below the objects and below the list of them, so that an object knows of no list.

use std::fmt;
use std::ptr::{self, NonNull};

use super::token::InCall;

/// The way to recover an object when its holder is lost; one static per kind of object.
pub struct ItemKind {
    /// Gives the object back, or takes it back, as far as is possible without the destructors of
    /// the fiber, its holder and the caller. It is called with the object and the detail.
    ///
    /// # Safety
    ///
    /// The object is of this kind and valid, the caller is the fiber that held it, and the item was
    /// removed from its list just now.
    pub recover: unsafe fn(InCall<'_>, NonNull<()>, *const ()),
}

/// An object that a fiber holds, or has lent from its frames.
#[derive(Clone, Copy)]
pub struct Item {
    object: NonNull<()>,
    /// A count, or a second address; its kind says which.
    detail: *const (),
    kind: &'static ItemKind,
}

impl Item {
    #[inline(always)]
    pub fn new<T>(object: &T, detail: *const (), kind: &'static ItemKind) -> Self {
        Item { object: NonNull::from(object).cast(), detail, kind }
    }

    /// Returns the address of the object.
    pub(crate) fn object(&self) -> *const () {
        self.object.as_ptr()
    }

    /// Recovers the object.
    ///
    /// # Safety
    ///
    /// The object is valid, the caller is the fiber of the item, and the item was removed from its
    /// list just now.
    pub(crate) unsafe fn recover(self, call: InCall<'_>) {
        // SAFETY: an item has the kind of its object; the rest is this function's contract.
        unsafe { (self.kind.recover)(call, self.object, self.detail) };
    }
}

impl PartialEq for Item {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.object == other.object && self.detail == other.detail && ptr::eq(self.kind, other.kind)
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}, {:p}", self.object, self.detail)
    }
}
