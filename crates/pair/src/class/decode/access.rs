//! Addresses of data, computed from the registers of a sample.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, Register};

use super::kind::{InstructionKind, kind};
use super::used::{Used, registers};

/// An operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::class) struct Operand {
    /// Register numbers of instruction encodings.
    base: Option<u8>,
    index: Option<u8>,
    scale: u64,
    displacement: u64,
}

impl Operand {
    /// The address with these register values.
    pub(in crate::class) fn address(&self, registers: &[u64; 16]) -> u64 {
        let value = |number: Option<u8>| number.map_or(0, |number| registers[usize::from(number)]);
        let index = value(self.index).wrapping_mul(self.scale);
        value(self.base).wrapping_add(index).wrapping_add(self.displacement)
    }

    fn uses(&self, register: u8) -> bool {
        self.base == Some(register) || self.index == Some(register)
    }
}

/// An access with an address that follows from the registers of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::class) struct Access {
    /// The instruction.
    pub(in crate::class) at: u64,
    pub(in crate::class) operand: Operand,
}

/// The accesses before and behind an address that use only registers left unchanged in between.
pub(super) fn accesses(before: &[Instruction], after: &[Instruction]) -> Vec<Access> {
    let mut factory = InstructionInfoFactory::new();
    let mut found: Vec<Access> = Vec::new();
    let mut gone = 0;
    for instruction in after {
        note(&mut found, instruction, gone);
        gone |= Used::by(instruction, &mut factory).written;
    }
    gone = 0;
    for instruction in before.iter().rev() {
        // The registers that an instruction writes are lost behind it.
        gone |= Used::by(instruction, &mut factory).written;
        note(&mut found, instruction, gone);
    }
    found
}

/// Adds the access of an instruction, once.
fn note(found: &mut Vec<Access>, instruction: &Instruction, gone: u32) {
    let Some(operand) = operand(instruction) else { return };
    let at = instruction.ip();
    let is_known = !registers(gone).any(|register| operand.uses(register as u8));
    if is_known && found.iter().all(|access| access.at != at) {
        found.push(Access { at, operand });
    }
}

/// The memory operand, if general registers determine its address. Flushes and vectors of addresses
/// have none.
fn operand(instruction: &Instruction) -> Option<Operand> {
    if !matches!(kind(instruction), InstructionKind::Memory | InstructionKind::Nontemporal)
        || instruction.segment_prefix() != Register::None
        || instruction.is_vsib()
    {
        return None;
    }
    if let Some(base) = target(instruction) {
        return Some(Operand { base: Some(base), index: None, scale: 1, displacement: 0 });
    }
    let part = |register: Register| match register {
        Register::None | Register::RIP | Register::EIP => Some(None),
        register if register.is_gpr() => Some(Some(register.number() as u8)),
        _ => None,
    };
    Some(Operand {
        base: part(instruction.memory_base())?,
        index: part(instruction.memory_index())?,
        scale: u64::from(instruction.memory_index_scale()),
        displacement: instruction.memory_displacement64(),
    })
}

/// The address register of instructions that write memory without a memory operand.
fn target(instruction: &Instruction) -> Option<u8> {
    const RAX: u8 = 0;
    const RDI: u8 = 7;
    match instruction.mnemonic() {
        Mnemonic::Clzero => Some(RAX),
        Mnemonic::Movdir64b => Some(instruction.op0_register().number() as u8),
        _ => instruction.is_string_instruction().then_some(RDI),
    }
}
