//! Kinds of instructions.

use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

/// The stack pointer and the frame pointer among registers.
pub(in crate::class) const STACK: usize = 4;
pub(super) const FRAME: usize = 5;

/// The kind of an instruction, by its reason to take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::class) enum InstructionKind {
    /// Writes a line back: CLFLUSH, CLFLUSHOPT, CLWB.
    Flush,
    /// Waits for stores: SFENCE, MFENCE.
    Fence,
    /// Stores past the caches.
    Nontemporal,
    /// Yields to the sibling.
    Pause,
    /// Reads or writes memory.
    Memory,
    /// Any other instruction.
    Plain,
}

pub(super) fn kind(instruction: &Instruction) -> InstructionKind {
    use Mnemonic::{
        Clflush, Clflushopt, Clwb, Clzero, Mfence, Movdir64b, Movdiri, Movntdq, Movnti, Movntpd,
        Movntps, Movntq, Movntsd, Movntss, Pause, Sfence, Tpause, Umwait, Vmovntdq, Vmovntpd,
        Vmovntps,
    };
    match instruction.mnemonic() {
        Clflush | Clflushopt | Clwb => InstructionKind::Flush,
        Sfence | Mfence => InstructionKind::Fence,
        Clzero | Movdir64b | Movdiri | Movnti | Movntdq | Movntpd | Movntps | Movntq | Movntsd
        | Movntss | Vmovntdq | Vmovntpd | Vmovntps => InstructionKind::Nontemporal,
        Pause | Tpause | Umwait => InstructionKind::Pause,
        _ if touches_memory(instruction) => InstructionKind::Memory,
        _ => InstructionKind::Plain,
    }
}

/// Returns true for accesses to an address that the instruction names. Stack traffic is always
/// near, and a prefetch is waited for only by the user of its data.
pub(super) fn touches_memory(instruction: &Instruction) -> bool {
    let access = |operand| InstructionInfoFactory::new().info(instruction).op_access(operand);
    let mut operands = (0..instruction.op_count())
        .filter(|operand| instruction.op_kind(*operand) == OpKind::Memory);
    instruction.is_string_instruction()
        || operands
            .any(|operand| !matches!(access(operand), OpAccess::None | OpAccess::NoMemAccess))
}

/// Returns true for operands in the frame of a function or in the memory of its thread, which are
/// always near.
pub(super) fn is_on_stack(instruction: &Instruction, registers: &[u64; 16]) -> bool {
    const LARGEST: u64 = 1 << 20;
    if instruction.is_string_instruction() {
        return false;
    }
    match instruction.memory_base() {
        Register::RSP | Register::ESP => true,
        Register::RBP => registers[FRAME].wrapping_sub(registers[STACK]) < LARGEST,
        _ => matches!(instruction.segment_prefix(), Register::FS | Register::GS),
    }
}

pub(super) fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
}
