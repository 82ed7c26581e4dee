//! The registers of threads that stand still.

use daiko_core::inspect::Context;

/// The place of the registers in the kernel's `struct elf_prstatus`, and that of the thread's id.
pub(crate) const STATUS_REGISTERS: usize = 112;
pub(crate) const STATUS_THREAD: usize = 32;
/// The places of registers, in words, in the kernel's `struct user_regs_struct`.
const FRAME_POINTER: usize = 4;
const INSTRUCTION_POINTER: usize = 16;
const STACK_POINTER: usize = 19;
const THREAD_POINTER: usize = 21;

/// The registers of a thread that a backtrace needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    pub(crate) context: Context,
    /// The address of the thread's control block in the C library.
    pub(crate) thread_pointer: u64,
}

impl Registers {
    /// Parses the general registers, in the kernel's order.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |index: usize| {
            let word = bytes.get(8 * index..8 * index + 8)?;
            word.try_into().ok().map(u64::from_le_bytes)
        };
        let context = Context {
            instruction_pointer: word(INSTRUCTION_POINTER)?,
            stack_pointer: word(STACK_POINTER)?,
            frame_pointer: word(FRAME_POINTER)?,
        };
        Some(Registers { context, thread_pointer: word(THREAD_POINTER)? })
    }

    /// Parses a note of a core file with the state of a thread. Returns also the thread's id.
    pub(crate) fn parse_status(note: &[u8]) -> Option<(u32, Self)> {
        let thread = note.get(STATUS_THREAD..STATUS_THREAD + 4)?;
        let thread = u32::from_le_bytes(thread.try_into().ok()?);
        Some((thread, Self::parse(note.get(STATUS_REGISTERS..)?)?))
    }
}
