//! The control flow around an address.
//!
//! The instructions executed before an address follow from the loop around the address, if there is
//! one; from the caller, at the beginning of a function; otherwise from the bytes before it. These
//! are decoded from every byte on, and the boundary that most of these decodings reach is taken:
//! decodings of x86 that begin at a wrong byte soon reach a right boundary.

use std::collections::{HashMap, VecDeque};

use daiko_sys::sampling::Sample;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpKind, Register,
};

use super::kind::{FRAME, InstructionKind, STACK, is_call, kind};
use super::used::Used;

/// Number of instructions examined before and behind an address.
pub(super) const WINDOW: usize = 16;
/// Largest number of instructions that retire together with the awaited instruction.
pub(super) const SKID: usize = 4;
/// Bytes before an address that are decoded.
const BEFORE: usize = 96;
/// The longest instruction.
const LONGEST: usize = 15;
/// Largest number of instructions in a loop.
const LOOP: usize = 192;

/// Reads the code of a process.
pub trait ReadCode {
    /// Reads up to `bytes.len()` bytes from `address` on and returns the number read.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize;

    /// Reads memory that changes, otherwise as [`read`](Self::read).
    fn read_data(&mut self, address: u64, bytes: &mut [u8]) -> usize {
        self.read(address, bytes)
    }
}

/// The code of a process, for following its control flow.
pub(super) struct Text<'a> {
    pub(super) code: &'a mut dyn ReadCode,
    pub(super) bits: u32,
}

impl Text<'_> {
    fn decode_at(&mut self, address: u64) -> Option<Instruction> {
        let mut bytes = [0; LONGEST];
        let len = self.code.read(address, &mut bytes);
        decode(&bytes[..len], address, self.bits)
    }

    /// The instructions from `address` on, along unconditional jumps.
    pub(super) fn straight(&mut self, address: u64, most: usize) -> Vec<Instruction> {
        let mut instructions = Vec::new();
        let mut next = Some(address);
        while let Some(at) = next.filter(|_| instructions.len() < most) {
            let Some(instruction) = self.decode_at(at) else { break };
            instructions.push(instruction);
            next = successors(&instruction)[0];
        }
        instructions
    }

    /// The shortest path from `address` back to it, stepping over calls.
    pub(super) fn cycle(&mut self, address: u64) -> Option<Vec<Instruction>> {
        self.shortest_way(address, |_, next| next == Some(address))
    }

    /// The shortest path from `address` to an instruction for which `is_end` holds with one of its
    /// successors.
    fn shortest_way(
        &mut self,
        address: u64,
        mut is_end: impl FnMut(&Instruction, Option<u64>) -> bool,
    ) -> Option<Vec<Instruction>> {
        let mut came_from: HashMap<u64, Option<Instruction>> = HashMap::from([(address, None)]);
        let mut queue = VecDeque::from([address]);
        while let Some(at) = queue.pop_front().filter(|_| came_from.len() <= LOOP) {
            let Some(instruction) = self.decode_at(at) else { continue };
            let next = self.successors(&instruction);
            if next.iter().any(|next| is_end(&instruction, *next)) {
                return Some(way(&came_from, instruction));
            }
            for next in next.into_iter().flatten() {
                came_from.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    Some(instruction)
                });
            }
        }
        None
    }

    /// The possible successors, including a jump through a pointer at a fixed address, as between
    /// libraries.
    fn successors(&mut self, instruction: &Instruction) -> [Option<u64>; 2] {
        match instruction.flow_control() {
            FlowControl::IndirectBranch => [self.pointer(instruction, &[], None), None],
            _ => successors(instruction),
        }
    }

    /// The target of an indirect jump or call. `registers` are the values behind it, and `before`
    /// the instructions before it. Without both, only a pointer at a fixed address is resolved.
    fn pointer(
        &mut self,
        instruction: &Instruction,
        before: &[Instruction],
        registers: Option<&[u64; 16]>,
    ) -> Option<u64> {
        match instruction.op0_kind() {
            OpKind::Register => self.value(instruction.op0_register(), before, registers),
            OpKind::Memory => self.loaded(instruction, before, registers),
            _ => None,
        }
    }

    /// The value of a register behind `before`: its current value if it is callee-saved, otherwise
    /// the value moved there last.
    fn value(
        &mut self,
        register: Register,
        before: &[Instruction],
        registers: Option<&[u64; 16]>,
    ) -> Option<u64> {
        const KEPT: [Register; 7] = [
            Register::RBX,
            Register::RSP,
            Register::RBP,
            Register::R12,
            Register::R13,
            Register::R14,
            Register::R15,
        ];
        if KEPT.contains(&register) {
            return registers.map(|all| all[register.number()]);
        }
        let mut factory = InstructionInfoFactory::new();
        let writes = |instruction: &Instruction| {
            is_call(instruction) || Used::by(instruction, &mut factory).writes(register)
        };
        let at = before.iter().rposition(writes)?;
        let (instruction, before) = (before[at], &before[..at]);
        match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov, _) if instruction.op0_register() != register => None,
            (Mnemonic::Mov, OpKind::Register) => {
                self.value(instruction.op1_register(), before, registers)
            }
            (Mnemonic::Mov, OpKind::Memory) => self.loaded(&instruction, before, registers),
            _ => None,
        }
    }

    /// The word in an instruction's memory operand.
    fn loaded(
        &mut self,
        instruction: &Instruction,
        before: &[Instruction],
        registers: Option<&[u64; 16]>,
    ) -> Option<u64> {
        let base = match instruction.memory_base() {
            Register::None | Register::RIP => 0,
            register => self.value(register, before, registers)?,
        };
        let is_plain = instruction.memory_index() == Register::None;
        let address = base.wrapping_add(instruction.memory_displacement64());
        if is_plain { self.word(address) } else { None }
    }

    fn word(&mut self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.code.read(address, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
    }

    /// An address, and those to which jumps at it lead, as between libraries.
    fn jumps(&mut self, address: u64) -> Vec<u64> {
        const MOST: usize = 4;
        let mut jumps = vec![address];
        while jumps.len() < MOST {
            let jump = self.decode_at(jumps[jumps.len() - 1]).filter(is_jump);
            let Some(next) = jump.and_then(|jump| self.successors(&jump)[0]) else { break };
            jumps.push(next);
        }
        jumps
    }

    /// The call to the function that begins at the sample's address, or at jumps to it, with the
    /// instructions before the call.
    pub(super) fn caller(&mut self, sample: &Sample) -> Option<Vec<Instruction>> {
        let back = self.word(sample.registers[STACK]).filter(|_| self.bits == 64)?;
        let before = self.cycle(back).map_or_else(|| self.before(back), |cycle| tail(&cycle));
        let (call, earlier) = before.split_last()?;
        let called = Some(call).filter(|call| is_call(call) && call.next_ip() == back);
        let function = self.function(called?, earlier, Some(&sample.registers))?;
        let leads_here = self.jumps(function).contains(&sample.address);
        leads_here.then_some(before)
    }

    /// The innermost loop around the calls that lead to a sample outside of loops. Return addresses
    /// are found by the movements of the stack pointer on the shortest path to the return.
    pub(super) fn outer_cycle(&mut self, sample: &Sample) -> Option<Vec<Instruction>> {
        const DEPTH: usize = 3;
        let mut address = sample.address;
        let mut top = sample.registers[STACK];
        for _ in 0..DEPTH {
            let is_return =
                |instruction: &Instruction, _| instruction.flow_control() == FlowControl::Return;
            let way = self.shortest_way(address, is_return)?;
            let (_, way) = way.split_last()?;
            for instruction in way {
                top = match instruction.mnemonic() {
                    Mnemonic::Leave => sample.registers[FRAME].wrapping_add(8),
                    _ if is_call(instruction) => top,
                    _ => top.wrapping_add_signed(moved(instruction)),
                };
            }
            address = self.word(top).filter(|_| self.bits == 64)?;
            top = top.wrapping_add(8);
            let is_behind_a_call = self.before(address).last().is_some_and(is_call);
            let cycle = self.cycle(address).filter(|_| is_behind_a_call);
            if cycle.is_some() || !is_behind_a_call {
                return cycle;
            }
        }
        None
    }

    /// The target of a call.
    fn function(
        &mut self,
        call: &Instruction,
        before: &[Instruction],
        registers: Option<&[u64; 16]>,
    ) -> Option<u64> {
        match call.flow_control() {
            FlowControl::Call => Some(call.near_branch_target()),
            _ => self.pointer(call, before, registers),
        }
    }

    /// Returns true if a function that is called `around`, or a function called in turn by it, up
    /// to two calls further, has an instruction of such a kind.
    pub(super) fn has_in_calls<'a>(
        &mut self,
        around: impl Iterator<Item = &'a Instruction>,
        registers: &[u64; 16],
        is_such: fn(InstructionKind) -> bool,
    ) -> bool {
        let calls: Vec<Instruction> =
            around.filter(|instruction| is_call(instruction)).copied().collect();
        let mut functions: Vec<u64> =
            calls.iter().filter_map(|call| self.function(call, &[], Some(registers))).collect();
        for _ in 0..3 {
            let mut further = Vec::new();
            for function in functions {
                let found = self.shortest_way(function, |instruction, _| {
                    further.extend(is_call(instruction).then_some(*instruction));
                    is_such(kind(instruction))
                });
                if found.is_some() {
                    return true;
                }
            }
            functions = further.iter().filter_map(|call| self.function(call, &[], None)).collect();
        }
        false
    }

    /// Inserts the last instructions of a called function behind a near call. `registers` are the
    /// values behind the call, which has preserved some of them.
    pub(super) fn enter_calls(&mut self, before: &mut Vec<Instruction>, registers: &[u64; 16]) {
        const DEPTH: usize = 3;
        let mut entered = 0;
        for depth in 0..DEPTH {
            let first = before.len().saturating_sub(SKID).max(entered);
            let Some(at) = (first..before.len()).rfind(|&at| is_call(&before[at])) else { return };
            // Inside the function the registers had other values.
            let registers = (depth == 0).then_some(registers);
            let function = self.function(&before[at], &before[..at], registers);
            let is_return =
                |instruction: &Instruction, _| instruction.flow_control() == FlowControl::Return;
            let way = function.and_then(|start| self.shortest_way(start, is_return));
            entered = at + 1;
            before.splice(entered..entered, way.unwrap_or_default());
        }
    }

    /// The instructions before `address`, in memory order.
    pub(super) fn before(&mut self, address: u64) -> Vec<Instruction> {
        let mut bytes = [0; BEFORE];
        let Some(start) = address.checked_sub(BEFORE as u64) else { return Vec::new() };
        if self.code.read(start, &mut bytes) < BEFORE {
            return Vec::new();
        }
        let from = |offset: usize| {
            let end = (offset + LONGEST).min(BEFORE);
            decode(&bytes[offset..end], start + offset as u64, self.bits)
        };
        let decoded: Vec<_> = (0..BEFORE).map(from).collect();
        agreed(&decoded, address)
    }
}

pub(super) fn tail(instructions: &[Instruction]) -> Vec<Instruction> {
    instructions[instructions.len().saturating_sub(WINDOW)..].to_vec()
}

fn decode(bytes: &[u8], address: u64, bits: u32) -> Option<Instruction> {
    let mut decoder = Decoder::with_ip(bits, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (!instruction.is_invalid() && instruction.code() != Code::INVALID).then_some(instruction)
}

/// The possible successors; the fall-through or the target of an unconditional jump comes first.
fn successors(instruction: &Instruction) -> [Option<u64>; 2] {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch => [Some(instruction.near_branch_target()), None],
        FlowControl::ConditionalBranch => {
            [Some(instruction.next_ip()), Some(instruction.near_branch_target())]
        }
        FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall => {
            [Some(instruction.next_ip()), None]
        }
        _ => [None, None],
    }
}

/// The bytes by which an instruction moves the stack pointer.
fn moved(instruction: &Instruction) -> i64 {
    let by = || instruction.try_immediate(1).unwrap_or(0) as i64;
    match instruction.mnemonic() {
        _ if instruction.op0_register() != Register::RSP => {
            i64::from(instruction.stack_pointer_increment())
        }
        Mnemonic::Add => by(),
        Mnemonic::Sub => -by(),
        _ => 0,
    }
}

fn is_jump(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
    )
}

fn goes_on(instruction: &Instruction) -> bool {
    successors(instruction)[0] == Some(instruction.next_ip())
}

/// The path that ends with `last`.
fn way(came_from: &HashMap<u64, Option<Instruction>>, last: Instruction) -> Vec<Instruction> {
    let mut way = vec![last];
    while let Some(Some(earlier)) = came_from.get(&way[way.len() - 1].ip()) {
        way.push(*earlier);
    }
    way.reverse();
    way
}

/// The boundaries before `address` on which most of the decodings that begin at each byte agree.
fn agreed(decoded: &[Option<Instruction>], address: u64) -> Vec<Instruction> {
    let start = address - decoded.len() as u64;
    let mut votes = vec![1_u32; decoded.len()];
    for offset in 0..decoded.len() {
        let next =
            decoded[offset].map(|instruction| instruction.next_ip().wrapping_sub(start) as usize);
        if let Some(next) = next.filter(|&next| next < decoded.len()) {
            votes[next] += votes[offset];
        }
    }
    let mut instructions = Vec::new();
    let mut end = address;
    while instructions.len() < WINDOW {
        let ends_there = decoded.iter().zip(&votes).filter_map(|(instruction, votes)| {
            instruction
                .filter(|instruction| instruction.next_ip() == end)
                .map(|instruction| (votes, instruction))
        });
        let best = ends_there.max_by_key(|(votes, _)| **votes);
        // Control does not pass a return or an unconditional jump.
        let Some((_, best)) = best.filter(|(_, best)| goes_on(best)) else { break };
        end = best.ip();
        instructions.push(best);
    }
    instructions.reverse();
    instructions
}
