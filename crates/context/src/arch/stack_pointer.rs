//! The name of a suspended context.

use std::ptr;

/// The saved state of a context that is not running, as the address of its frame.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackPointer(pub(super) *mut u8);

impl StackPointer {
    /// Refers to no context. The initial value of a place that [`switch`](crate::switch) saves to.
    pub const NULL: Self = Self(ptr::null_mut());

    /// The address, for debuggers and reports.
    pub fn addr(self) -> usize {
        self.0.addr()
    }
}
