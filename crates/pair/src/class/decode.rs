//! What the code around an address does, and what a thread that is there was waiting for.
//!
//! A timer's interrupt is taken once the instruction that is being waited for has retired, so that the address of a sample is
//! that of the instruction behind it. Which one that was is told by the loop that the address is in, if it is in one, and
//! else by the bytes before it: those are decoded from every byte on, and the boundary that most of these decodings come to
//! is taken, as decodings of x86 that begin at a wrong byte soon come to a right boundary.

use std::collections::{HashMap, VecDeque};

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register,
};

/// Bytes before an address that are decoded.
const BEFORE: usize = 96;
/// The longest instruction.
const LONGEST: usize = 15;
/// Instructions that a loop has at most.
const LOOP: usize = 192;
/// Instructions that are looked at before and behind an address.
pub(super) const WINDOW: usize = 16;
/// What retires with the one that was waited for may be up to so many.
const SKID: usize = 4;

/// Reads the code of a process.
pub(super) trait ReadCode {
    /// As many bytes from `address` on as can be read, up to `bytes.len()`.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> usize;
}

/// What an instruction does that may take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Writes a line back: CLFLUSH, CLFLUSHOPT, CLWB.
    Flush,
    /// Waits for stores: SFENCE, MFENCE.
    Fence,
    /// Stores past the caches.
    Nontemporal,
    /// Gives way to the sibling.
    Pause,
    /// Reads or writes memory.
    Memory,
    /// Anything else.
    Plain,
}

/// An operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    /// Registers as encodings number them.
    base: Option<u8>,
    index: Option<u8>,
    scale: u64,
    displacement: u64,
}

impl Operand {
    /// The address, with those registers.
    pub(super) fn address(&self, registers: &[u64; 16]) -> u64 {
        let value = |number: Option<u8>| number.map_or(0, |number| registers[usize::from(number)]);
        let index = value(self.index).wrapping_mul(self.scale);
        value(self.base).wrapping_add(index).wrapping_add(self.displacement)
    }

    fn uses(&self, register: u8) -> bool {
        self.base == Some(register) || self.index == Some(register)
    }
}

/// An access whose address the registers of a sample tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// The instruction.
    pub(super) at: u64,
    pub(super) operand: Operand,
}

/// The surroundings of an address.
#[derive(Clone, Debug, Default)]
pub(super) struct Site {
    /// What was waited for: kind and address of the instruction.
    pub(super) culprit: Option<(Kind, u64)>,
    /// Whether a line is written back nearby, or written past the caches.
    pub(super) writes_back: bool,
    /// Whether a fence is nearby.
    pub(super) fences: bool,
    /// Whether it is in a loop no round of which leaves anything to the next: it waits for another thread.
    pub(super) spins: bool,
    pub(super) accesses: Vec<Access>,
}

impl Site {
    /// What is around `address`, in code of so many bits; nothing, if it cannot be read.
    pub(super) fn at(code: &mut dyn ReadCode, address: u64, bits: u32) -> Self {
        let mut text = Text { code, bits };
        let cycle = text.cycle(address);
        let after = match &cycle {
            Some(cycle) => cycle.iter().copied().take(WINDOW).collect(),
            None => text.straight(address, WINDOW),
        };
        // The nearest comes last, as in memory.
        let before = match &cycle {
            Some(cycle) => cycle[cycle.len().saturating_sub(WINDOW)..].to_vec(),
            None => text.before(address),
        };
        let kinds = || before.iter().chain(&after).map(kind);
        Self {
            culprit: repeated(&after).or_else(|| culprit(&before)),
            writes_back: kinds().any(|kind| matches!(kind, Kind::Flush | Kind::Nontemporal)),
            fences: kinds().any(|kind| kind == Kind::Fence),
            spins: cycle.is_some_and(|cycle| leaves_nothing(&cycle)),
            accesses: accesses(&before, &after),
        }
    }
}

/// One that is interrupted between its rounds: the sample is at it.
fn repeated(after: &[Instruction]) -> Option<(Kind, u64)> {
    let first = after.first()?;
    let repeats = first.has_rep_prefix() || first.has_repne_prefix();
    (repeats && first.is_string_instruction()).then_some((Kind::Memory, first.ip()))
}

/// The nearest that may take long, of those that may have retired together.
fn culprit(before: &[Instruction]) -> Option<(Kind, u64)> {
    let near = before.iter().rev().take(SKID).map(|instruction| (kind(instruction), instruction));
    let mut slow = near.filter(|(kind, _)| *kind != Kind::Plain);
    slow.next().map(|(kind, instruction)| (kind, instruction.ip()))
}

fn kind(instruction: &Instruction) -> Kind {
    use Mnemonic::{
        Clflush, Clflushopt, Clwb, Lea, Mfence, Movntdq, Movnti, Movntpd, Movntps, Movntq, Nop,
        Pause, Sfence, Tpause, Umwait, Vmovntdq, Vmovntpd, Vmovntps,
    };
    match instruction.mnemonic() {
        Clflush | Clflushopt | Clwb => Kind::Flush,
        Sfence | Mfence => Kind::Fence,
        Movnti | Movntdq | Movntpd | Movntps | Movntq | Vmovntdq | Vmovntpd | Vmovntps => {
            Kind::Nontemporal
        }
        Pause | Tpause | Umwait => Kind::Pause,
        Lea | Nop => Kind::Plain,
        _ if touches_memory(instruction) => Kind::Memory,
        _ => Kind::Plain,
    }
}

/// Whether it does so by an address that it names; the stack's own traffic is always near.
fn touches_memory(instruction: &Instruction) -> bool {
    let is_memory = |operand| instruction.op_kind(operand) == OpKind::Memory;
    instruction.is_string_instruction() || (0..instruction.op_count()).any(is_memory)
}

struct Text<'a> {
    code: &'a mut dyn ReadCode,
    bits: u32,
}

impl Text<'_> {
    fn one(&mut self, address: u64) -> Option<Instruction> {
        let mut bytes = [0; LONGEST];
        let len = self.code.read(address, &mut bytes);
        decode(&bytes[..len], address, self.bits)
    }

    /// The instructions from `address` on, along jumps that are always taken.
    fn straight(&mut self, address: u64, most: usize) -> Vec<Instruction> {
        let mut instructions = Vec::new();
        let mut next = Some(address);
        while let Some(instruction) = next.filter(|_| instructions.len() < most).and_then(|at| self.one(at)) {
            instructions.push(instruction);
            next = successors(&instruction)[0];
        }
        instructions
    }

    /// The shortest way from `address` back to it, past calls.
    fn cycle(&mut self, address: u64) -> Option<Vec<Instruction>> {
        let mut came_from: HashMap<u64, Option<Instruction>> = HashMap::from([(address, None)]);
        let mut queue = VecDeque::from([address]);
        while let Some(at) = queue.pop_front().filter(|_| came_from.len() <= LOOP) {
            let Some(instruction) = self.one(at) else { continue };
            for next in successors(&instruction).into_iter().flatten() {
                if next == address {
                    return Some(way(&came_from, instruction));
                }
                came_from.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    Some(instruction)
                });
            }
        }
        None
    }

    /// The instructions before `address`, the last last.
    fn before(&mut self, address: u64) -> Vec<Instruction> {
        let mut bytes = [0; BEFORE];
        let start = address.saturating_sub(BEFORE as u64);
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

fn decode(bytes: &[u8], address: u64, bits: u32) -> Option<Instruction> {
    let mut decoder = Decoder::with_ip(bits, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (!instruction.is_invalid() && instruction.code() != Code::INVALID).then_some(instruction)
}

/// Where a thread may go next: on or along the jump first.
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

/// The way that ends with `last`.
fn way(came_from: &HashMap<u64, Option<Instruction>>, last: Instruction) -> Vec<Instruction> {
    let mut way = vec![last];
    while let Some(Some(earlier)) = came_from.get(&way[way.len() - 1].ip()) {
        way.push(*earlier);
    }
    way.reverse();
    way
}

/// Of the decodings that begin at each byte, the boundaries before `address` that most of them come to.
fn agreed(decoded: &[Option<Instruction>], address: u64) -> Vec<Instruction> {
    let start = address - decoded.len() as u64;
    let mut votes = vec![1_u32; decoded.len()];
    for offset in 0..decoded.len() {
        let next = decoded[offset].map(|instruction| (instruction.next_ip() - start) as usize);
        if let Some(next) = next.filter(|&next| next < decoded.len()) {
            votes[next] += votes[offset];
        }
    }
    let mut instructions = Vec::new();
    let mut end = address;
    while instructions.len() < WINDOW {
        let ends_there = decoded.iter().zip(&votes).filter_map(|(instruction, votes)| {
            instruction.filter(|instruction| instruction.next_ip() == end).map(|one| (votes, one))
        });
        let Some((_, best)) = ends_there.max_by_key(|(votes, _)| **votes) else { break };
        end = best.ip();
        instructions.push(best);
    }
    instructions.reverse();
    instructions
}

/// Which registers an instruction reads and writes, as encodings number them.
struct Used {
    read: u32,
    written: u32,
    writes_memory: bool,
}

impl Used {
    fn by(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Self {
        let info = factory.info(instruction);
        let mut used = Self { read: 0, written: 0, writes_memory: false };
        for register in info.used_registers() {
            let Some(number) = number(register.register()) else { continue };
            let (reads, writes) = directions(register.access());
            used.read |= u32::from(reads) << number;
            used.written |= u32::from(writes) << number;
        }
        used.writes_memory = info.used_memory().iter().any(|memory| directions(memory.access()).1);
        used
    }
}

fn directions(access: OpAccess) -> (bool, bool) {
    use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite, Write};
    let reads = matches!(access, Read | CondRead | ReadWrite | ReadCondWrite);
    let writes = matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite);
    (reads, writes)
}

/// As encodings number it, vector registers from 16 on.
fn number(register: Register) -> Option<u8> {
    if register.is_gpr() {
        return Some(register.full_register().number() as u8);
    }
    register.is_vector_register().then(|| 16 + (register.number() % 16) as u8)
}

/// Whether a loop's rounds are all alike: no register is carried from one to the next, and nothing is stored that a round
/// has made.
fn leaves_nothing(cycle: &[Instruction]) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let used: Vec<Used> = cycle.iter().map(|one| Used::by(one, &mut factory)).collect();
    let written = used.iter().fold(0, |written, used| written | used.written);
    let mut so_far = 0;
    let mut carried = 0;
    for used in &used {
        carried |= used.read & !so_far;
        so_far |= used.written;
    }
    let is_call = |one: &Instruction| {
        matches!(one.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
    };
    let stores = |used: &Used| used.writes_memory && used.read & written != 0;
    let changes = |(one, used): (&Instruction, &Used)| {
        is_call(one) || stores(used) || used.writes_memory && one.op0_kind() == OpKind::Memory && reads_what_it_writes(one)
    };
    carried & written == 0 && !cycle.iter().zip(&used).any(changes)
}

/// As `inc [x]` does.
fn reads_what_it_writes(instruction: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    info.used_memory()
        .iter()
        .any(|memory| matches!(memory.access(), OpAccess::ReadWrite | OpAccess::ReadCondWrite))
}

/// The accesses before and behind an address whose registers nobody writes in between.
fn accesses(before: &[Instruction], after: &[Instruction]) -> Vec<Access> {
    let mut factory = InstructionInfoFactory::new();
    let mut found: Vec<Access> = Vec::new();
    let mut gone = 0;
    for instruction in after {
        note(&mut found, instruction, gone);
        gone |= Used::by(instruction, &mut factory).written;
    }
    gone = 0;
    for instruction in before.iter().rev() {
        // What it writes itself is gone behind it, too.
        gone |= Used::by(instruction, &mut factory).written;
        note(&mut found, instruction, gone);
    }
    found
}

/// Each instruction once.
fn note(found: &mut Vec<Access>, instruction: &Instruction, gone: u32) {
    let Some(operand) = operand(instruction) else { return };
    let at = instruction.ip();
    let is_known = !(0..16).any(|register| gone >> register & 1 == 1 && operand.uses(register));
    if is_known && found.iter().all(|access| access.at != at) {
        found.push(Access { at, operand });
    }
}

/// What it reads or writes in memory, if general registers tell the address: not of flushes, and not of vectors of addresses.
fn operand(instruction: &Instruction) -> Option<Operand> {
    if !matches!(kind(instruction), Kind::Memory | Kind::Nontemporal)
        || instruction.segment_prefix() != Register::None
        || instruction.is_vsib()
    {
        return None;
    }
    if instruction.is_string_instruction() {
        const RDI: u8 = 7;
        return Some(Operand { base: Some(RDI), index: None, scale: 1, displacement: 0 });
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

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
