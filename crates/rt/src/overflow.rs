//! Reports of stack overflows, with the name of the fiber and the place of its spawn.

use std::io;
use std::sync::Once;

use daiko_context::overflow::{self, Description};

use crate::fiber::ControlBlock;
use crate::worker;

/// Installs the reports of overflows of fibers' stacks, once for the process.
pub(crate) fn install() -> io::Result<()> {
    static INSTALL: Once = Once::new();
    let mut result = Ok(());
    // SAFETY: it reads a control block; slabs of stacks belong to runtimes, which put one there.
    INSTALL.call_once(|| result = unsafe { overflow::install(describe) });
    result
}

/// Describes a fiber to the fault handler: reads only fields that were written before the fiber
/// first ran. A stack whose block no fiber uses runs a [call](crate::on_pooled_stack) of the fiber
/// that its worker runs.
fn describe(top: *mut u8, fiber: &mut Description) {
    let block = top.wrapping_sub(size_of::<ControlBlock>()).cast::<ControlBlock>();
    // SAFETY: a stack of the runtime that overflowed has its control block at the top.
    let block = unsafe { &*block };
    let block = match worker::try_caller() {
        Some((_, caller)) if !block.is_used() => caller,
        _ => block,
    };
    if let Some(name) = block.name() {
        fiber.set_name(name.as_bytes());
    }
    fiber.set_spawned_at(block.spawned_at.get());
}
