//! Addresses that instructions compute from registers and from the stack, as in unoptimised code.
//!
//! A few instructions are replayed with the values that are known: registers, and words of the
//! stack, which are read when the sample is evaluated. Such a word may be a millisecond newer
//! than the sample. The addresses then belong to another round of the same code, and serve as well
//! to see how far apart its data lies.

use std::collections::HashMap;

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register};

use super::kind::{InstructionKind, is_call, is_on_stack, kind};
use super::used::{Used, registers as numbers};

/// Bytes of the stack below the stack pointer (the red zone of the ABI) and above it.
const BELOW: u64 = 128;
const ABOVE: u64 = 1024;
/// Registers that a function keeps for its caller: rbx, rsp, rbp, r12 to r15.
const KEPT: u32 = 1 << 3 | 1 << 4 | 1 << 5 | 0xf << 12;
/// Addresses of user space, without the first pages, which are never mapped.
const USABLE: std::ops::Range<u64> = 1 << 16..1 << 47;

/// The stack around the stack pointer of a sample.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::class) struct StackWords {
    start: u64,
    bytes: Vec<u8>,
}

impl StackWords {
    /// Reads the stack at the stack pointer `top` with `read`, which returns the bytes read.
    pub(in crate::class) fn around(top: u64, read: impl FnOnce(u64, &mut [u8]) -> usize) -> Self {
        let start = top.saturating_sub(BELOW);
        let mut bytes = vec![0; (BELOW + ABOVE) as usize];
        let len = read(start, &mut bytes);
        bytes.truncate(len);
        Self { start, bytes }
    }

    fn word(&self, address: u64, len: usize) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        let len = Some(len).filter(|len| matches!(len, 4 | 8))?;
        let bytes = self.bytes.get(offset..offset.checked_add(len)?)?;
        let mut word = [0; 8];
        word[..len].copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }
}

/// Values of registers and of overwritten words of the stack; `None` if unknown.
struct Replay<'a> {
    registers: [Option<u64>; 16],
    /// Length and value.
    written: HashMap<u64, (usize, u64)>,
    stack: &'a StackWords,
}

/// Finds the addresses of accesses to memory outside of the stack: the instruction and its address.
/// `before` led to the sample, `after` comes next; `values` are the registers between them.
pub(super) fn addresses(
    before: &[Instruction],
    after: &[Instruction],
    values: &[u64; 16],
    stack: &StackWords,
) -> Vec<(u64, u64)> {
    let mut factory = InstructionInfoFactory::new();
    let lost =
        before.iter().fold(0, |lost, instruction| lost | overwritten(instruction, &mut factory));
    let known = |register: usize| (lost >> register & 1 == 0).then(|| values[register]);
    let mut found = Vec::new();
    for (instructions, registers) in
        [(before, std::array::from_fn(known)), (after, values.map(Some))]
    {
        let mut replay = Replay { registers, written: HashMap::new(), stack };
        for instruction in instructions {
            found.extend(replay.access(instruction, values));
            replay.step(instruction, &mut factory);
        }
    }
    found
}

/// The registers that have another value behind an instruction.
fn overwritten(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> u32 {
    if is_call(instruction) { !KEPT } else { Used::by(instruction, factory).written }
}

impl Replay<'_> {
    fn access(&self, instruction: &Instruction, values: &[u64; 16]) -> Option<(u64, u64)> {
        let is_access =
            kind(instruction) == InstructionKind::Memory && !is_on_stack(instruction, values);
        let memory = (0..instruction.op_count())
            .find(|operand| instruction.op_kind(*operand) == OpKind::Memory)
            .filter(|_| is_access)?;
        let address = self.address(instruction, memory)?;
        USABLE.contains(&address).then_some((instruction.ip(), address))
    }

    fn address(&self, instruction: &Instruction, operand: u32) -> Option<u64> {
        instruction.virtual_address(operand, 0, |register, _, _| match register {
            Register::FS | Register::GS => None,
            _ if register.is_segment_register() => Some(0),
            _ => self.register(register),
        })
    }

    fn register(&self, register: Register) -> Option<u64> {
        let value = self.registers.get(register.full_register().number()).copied().flatten();
        let value = value.filter(|_| register.is_gpr());
        match register.size() {
            8 => value,
            4 => value.map(|value| value & u64::from(u32::MAX)),
            _ => None,
        }
    }

    /// The value of a source operand.
    fn value(&self, instruction: &Instruction, operand: u32) -> Option<u64> {
        match instruction.op_kind(operand) {
            OpKind::Register => self.register(instruction.op_register(operand)),
            OpKind::Memory => {
                let address = self.address(instruction, operand)?;
                let len = instruction.memory_size().size();
                match self.written.get(&address) {
                    Some((written, value)) => (*written == len).then_some(*value),
                    None => self.stack.word(address, len),
                }
            }
            _ => Some(instruction.try_immediate(operand).ok()?),
        }
    }

    /// The result of an instruction with a destination, if it is one that computes addresses.
    fn result(&self, instruction: &Instruction) -> Option<u64> {
        let source = |operand| self.value(instruction, operand);
        let signed = |value: u64| value as u32 as i32 as i64 as u64;
        let last = instruction.op_count().saturating_sub(1);
        let pair = |combine: fn(u64, u64) -> u64| {
            Some(combine(source(last.saturating_sub(1))?, source(last)?))
        };
        match instruction.mnemonic() {
            Mnemonic::Mov => source(1),
            Mnemonic::Movsxd => source(1).map(signed),
            Mnemonic::Cdqe => self.registers[0].map(signed),
            Mnemonic::Lea => self.address(instruction, 1),
            Mnemonic::Add => pair(u64::wrapping_add),
            Mnemonic::Sub => pair(u64::wrapping_sub),
            Mnemonic::And => pair(|one, other| one & other),
            Mnemonic::Or => pair(|one, other| one | other),
            Mnemonic::Xor => pair(|one, other| one ^ other),
            Mnemonic::Imul if last > 0 => pair(u64::wrapping_mul),
            Mnemonic::Shl => pair(|one, by| one << (by & 63)),
            Mnemonic::Shr => pair(|one, by| one >> (by & 63)),
            _ => None,
        }
    }

    fn step(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        let result = self.result(instruction);
        let is_store = Used::by(instruction, factory).stores && instruction.op_count() > 0;
        if is_store
            && instruction.op0_kind() == OpKind::Memory
            && let Some(address) = self.address(instruction, 0)
        {
            // An unknown value may be in the stack by now.
            match result {
                Some(value) => {
                    self.written.insert(address, (instruction.memory_size().size(), value))
                }
                None => self.written.remove(&address),
            };
        }
        let target = instruction.op0_register();
        let size = if instruction.mnemonic() == Mnemonic::Cdqe { 8 } else { target.size() };
        let result = match size {
            8 => result,
            4 => result.map(|value| value & u64::from(u32::MAX)),
            _ => None,
        };
        numbers(overwritten(instruction, factory)).filter(|register| *register < 16).for_each(
            |register| {
                self.registers[register] = result;
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    const TOP: u64 = 0x7fff_0000_1000;
    const AT: u64 = 0x40_0000;

    fn decode(bytes: &[u8]) -> Vec<Instruction> {
        Decoder::with_ip(64, bytes, AT, DecoderOptions::NONE).into_iter().collect()
    }

    /// The stack with one word at an address.
    fn stack(at: u64, word: u64) -> StackWords {
        StackWords::around(TOP, |start, bytes| {
            bytes[(at - start) as usize..][..8].copy_from_slice(&word.to_le_bytes());
            bytes.len()
        })
    }

    const RSP: usize = 4;

    /// The registers of a function with a frame pointer and all others at 0.
    fn registers() -> [u64; 16] {
        let mut registers = [0; 16];
        (registers[RSP], registers[5]) = (TOP, TOP + 64);
        registers
    }

    /// `mov rax, [rbp - 8]`, `add rax, 0x10`, `mov rax, [rax]`
    const THROUGH_A_SLOT: &[u8] =
        &[0x48, 0x8b, 0x45, 0xf8, 0x48, 0x83, 0xc0, 0x10, 0x48, 0x8b, 0x00];

    #[test]
    fn a_pointer_in_the_stack_is_followed() {
        let (code, stack) = (decode(THROUGH_A_SLOT), stack(TOP + 56, 0x1234_5000));
        let expected = [(AT + 8, 0x1234_5010)];
        assert_eq!(addresses(&code, &[], &registers(), &stack), expected);
        assert_eq!(addresses(&[], &code, &registers(), &stack), expected);
    }

    #[test]
    fn a_word_that_was_overwritten_has_its_new_value() {
        // `mov [rbp - 8], rdx` before the load.
        let code = decode(&[&[0x48, 0x89, 0x55, 0xf8], THROUGH_A_SLOT].concat());
        let stack = stack(TOP + 56, 0x1234_5000);
        let mut values = registers();
        values[2] = 0x7777_0000;
        assert_eq!(addresses(&[], &code, &values, &stack), [(AT + 12, 0x7777_0010)]);
    }

    /// The pattern of an index in unoptimised code.
    #[test]
    fn a_narrow_index_is_extended() {
        // `mov eax, [rbp - 8]`, `cdqe`, `shl rax, 3`, `mov rdx, [rdx + rax]`
        let code =
            decode(&[0x8b, 0x45, 0xf8, 0x48, 0x98, 0x48, 0xc1, 0xe0, 0x03, 0x48, 0x8b, 0x14, 0x02]);
        let mut values = registers();
        values[2] = 0x1000_0000;
        let minus_two = stack(TOP + 56, u64::from(-2_i32 as u32));
        assert_eq!(addresses(&[], &code, &values, &minus_two), [(AT + 9, 0x1000_0000 - 16)]);
    }

    #[test]
    fn an_unknown_address_is_not_told() {
        // `mov rax, [rax]` twice: the second address was in memory.
        let twice = decode(&[0x48, 0x8b, 0x00, 0x48, 0x8b, 0x00]);
        let stack = stack(TOP, 0);
        let mut values = registers();
        values[0] = 0x5555_0000;
        assert_eq!(addresses(&[], &twice, &values, &stack), [(AT, 0x5555_0000)]);
        assert_eq!(addresses(&twice, &[], &values, &stack), []);
        // Without the stack there is no pointer in it.
        let none = StackWords::around(TOP, |_, _| 0);
        assert_eq!(addresses(&[], &decode(THROUGH_A_SLOT), &registers(), &none), []);
    }
}
