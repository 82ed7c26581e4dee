//! Names the fiber whose stack overflowed.

use std::io;
use std::sync::Once;

use daiko_context::overflow::{self, Name};

use crate::fiber::ControlBlock;

/// Has overflows of fibers' stacks reported, once for the process.
pub(crate) fn install() -> io::Result<()> {
    static INSTALL: Once = Once::new();
    let mut result = Ok(());
    INSTALL.call_once(|| result = overflow::install(describe));
    result
}

/// Called by the fault handler: reads only what was written before the fiber first ran.
fn describe(top: *mut u8, name: &mut Name) {
    let block = top.wrapping_sub(size_of::<ControlBlock>()).cast::<ControlBlock>();
    // SAFETY: a stack of ours that overflowed has its control block at the top.
    if let Some(known) = unsafe { &*block }.name() {
        name.set(known.as_bytes());
    }
}
