//! Reports of stack overflows, with the name of the fiber.

use std::io;
use std::sync::Once;

use daiko_context::overflow::{self, Name};

use crate::fiber::ControlBlock;

/// Installs the reports of overflows of fibers' stacks, once for the process.
pub(crate) fn install() -> io::Result<()> {
    static INSTALL: Once = Once::new();
    let mut result = Ok(());
    // SAFETY: it reads a control block; slabs of stacks belong to runtimes, which put one there.
    INSTALL.call_once(|| result = unsafe { overflow::install(describe) });
    result
}

/// Returns the name for the fault handler: reads only fields that were written before the fiber
/// first ran.
fn describe(top: *mut u8, name: &mut Name) {
    let block = top.wrapping_sub(size_of::<ControlBlock>()).cast::<ControlBlock>();
    // SAFETY: a stack of the runtime that overflowed has its control block at the top.
    if let Some(known) = unsafe { &*block }.name() {
        name.set(known.as_bytes());
    }
}
