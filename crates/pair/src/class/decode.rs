//! What the code around an address does, and what a thread that is there was waiting for.
//!
//! A timer's interrupt is taken once the instruction that is being waited for has retired, so that the address of a sample is
//! that of the instruction behind it. Which one that was is told by the loop that the address is in, if it is in one, and
//! else by the bytes before it: those are decoded from every byte on, and the boundary that most of these decodings come to
//! is taken, as decodings of x86 that begin at a wrong byte soon come to a right boundary.

use std::collections::{HashMap, VecDeque};

use daiko_sys::sampling::Sample;
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
    /// Whether there was a store among what has retired last, be it to the stack.
    pub(super) stores: bool,
    /// Whether it is in a loop no round of which leaves anything to the next: it waits for another thread.
    pub(super) spins: bool,
    pub(super) accesses: Vec<Access>,
}

impl Site {
    /// What is around the address of `sample`; nothing, if it cannot be read. Its registers tell where a call has gone.
    pub(super) fn at(code: &mut dyn ReadCode, sample: &Sample) -> Self {
        let Sample { address, ref registers, bits } = *sample;
        let mut text = Text { code, bits };
        let cycle = text.cycle(address);
        let after = match &cycle {
            Some(cycle) => cycle.iter().copied().take(WINDOW).collect(),
            None => text.straight(address, WINDOW),
        };
        // The nearest comes last, as in memory.
        let mut before = match &cycle {
            Some(cycle) => tail(cycle),
            None => text.caller(sample).unwrap_or_else(|| text.before(address)),
        };
        // A call that was followed already leads here.
        if before.last().is_none_or(|last| last.next_ip() == address || !is_call(last)) {
            text.enter_calls(&mut before, registers);
        }
        let around = || before.iter().chain(&after);
        let kinds = || around().map(kind);
        let culprit = repeated(&after).or_else(|| culprit(&before));
        let behind_a_fence = matches!(culprit, Some((Kind::Fence, _)));
        Self {
            culprit,
            writes_back: kinds().any(writes_back)
                || behind_a_fence && text.writes_back_in_calls(around(), registers),
            fences: kinds().any(|kind| kind == Kind::Fence),
            stores: before.iter().rev().take(SKID).any(stores),
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

/// The nearest that may take long, of those that may have retired together. A store, as that of a call, waits for the fence
/// before it.
fn culprit(before: &[Instruction]) -> Option<(Kind, u64)> {
    let named = |one: &Instruction| Some((kind(one), one.ip()));
    for (distance, one) in before.iter().rev().take(SKID).enumerate() {
        if !matches!(kind(one), Kind::Memory | Kind::Plain) {
            return named(one);
        }
        if stores(one) {
            let earlier = before.iter().rev().skip(distance + 1);
            let mut earlier = earlier.take_while(|one| kind(one) == Kind::Fence || !stores(one));
            if let Some(fence) = earlier.find(|one| kind(one) == Kind::Fence) {
                return named(fence);
            }
        }
        if kind(one) == Kind::Memory {
            return named(one);
        }
    }
    None
}

fn stores(instruction: &Instruction) -> bool {
    Used::by(instruction, &mut InstructionInfoFactory::new()).stores
}

fn writes_back(kind: Kind) -> bool {
    matches!(kind, Kind::Flush | Kind::Nontemporal)
}

fn tail(instructions: &[Instruction]) -> Vec<Instruction> {
    instructions[instructions.len().saturating_sub(WINDOW)..].to_vec()
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
        while let Some(at) = next.filter(|_| instructions.len() < most) {
            let Some(instruction) = self.one(at) else { break };
            instructions.push(instruction);
            next = successors(&instruction)[0];
        }
        instructions
    }

    /// The shortest way from `address` back to it, past calls.
    fn cycle(&mut self, address: u64) -> Option<Vec<Instruction>> {
        self.shortest_way(address, |_, next| next == Some(address))
    }

    /// The shortest way from `address` to an instruction for which `is_end` holds, with one that may follow.
    fn shortest_way(
        &mut self,
        address: u64,
        mut is_end: impl FnMut(&Instruction, Option<u64>) -> bool,
    ) -> Option<Vec<Instruction>> {
        let mut came_from: HashMap<u64, Option<Instruction>> = HashMap::from([(address, None)]);
        let mut queue = VecDeque::from([address]);
        while let Some(at) = queue.pop_front().filter(|_| came_from.len() <= LOOP) {
            let Some(instruction) = self.one(at) else { continue };
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

    /// Where a thread may go next, also through a pointer at a fixed place, as to other libraries.
    fn successors(&mut self, instruction: &Instruction) -> [Option<u64>; 2] {
        match instruction.flow_control() {
            FlowControl::IndirectBranch => [self.pointer(instruction, None), None],
            _ => successors(instruction),
        }
    }

    /// Where a jump or a call goes that says so by a register or in memory; without registers, by what is at a fixed place.
    fn pointer(&mut self, instruction: &Instruction, registers: Option<&[u64; 16]>) -> Option<u64> {
        let kept = |register: Register| {
            const KEPT: [Register; 7] = [
                Register::RBX,
                Register::RSP,
                Register::RBP,
                Register::R12,
                Register::R13,
                Register::R14,
                Register::R15,
            ];
            KEPT.contains(&register).then(|| registers.map(|all| all[register.number()])).flatten()
        };
        match instruction.op0_kind() {
            OpKind::Register => kept(instruction.op0_register()),
            OpKind::Memory => {
                let base = match instruction.memory_base() {
                    Register::None | Register::RIP => 0,
                    register => kept(register)?,
                };
                let is_plain = instruction.memory_index() == Register::None;
                let address = base.wrapping_add(instruction.memory_displacement64());
                let mut bytes = [0; 8];
                (is_plain && self.code.read(address, &mut bytes) == 8)
                    .then(|| u64::from_le_bytes(bytes))
            }
            _ => None,
        }
    }

    /// If a function begins at the sample's address: the call that has come here, and what is before that.
    fn caller(&mut self, sample: &Sample) -> Option<Vec<Instruction>> {
        const STACK: usize = 4;
        let mut bytes = [0; 8];
        let has_read = self.code.read(sample.registers[STACK], &mut bytes) == 8;
        let back = has_read.then(|| u64::from_le_bytes(bytes)).filter(|_| self.bits == 64)?;
        let before = self.cycle(back).map_or_else(|| self.before(back), |cycle| tail(&cycle));
        let call = *before.last().filter(|last| is_call(last) && last.next_ip() == back)?;
        (self.function(&call, Some(&sample.registers))? == sample.address).then_some(before)
    }

    /// Where a call goes.
    fn function(&mut self, call: &Instruction, registers: Option<&[u64; 16]>) -> Option<u64> {
        match call.flow_control() {
            FlowControl::Call => Some(call.near_branch_target()),
            _ => self.pointer(call, registers),
        }
    }

    /// Whether a function that is called nearby writes lines back, or one that it calls.
    fn writes_back_in_calls<'a>(
        &mut self,
        around: impl Iterator<Item = &'a Instruction>,
        registers: &[u64; 16],
    ) -> bool {
        let calls: Vec<Instruction> = around.filter(|one| is_call(one)).copied().collect();
        let mut functions: Vec<u64> =
            calls.iter().filter_map(|call| self.function(call, Some(registers))).collect();
        for _ in 0..2 {
            let mut further = Vec::new();
            for function in functions {
                let found = self.shortest_way(function, |one, _| {
                    further.extend(is_call(one).then_some(*one));
                    writes_back(kind(one))
                });
                if found.is_some() {
                    return true;
                }
            }
            functions = further.iter().filter_map(|call| self.function(call, None)).collect();
        }
        false
    }

    /// Puts behind a near call what its function has done last. The registers are those behind it, of which it has kept some.
    fn enter_calls(&mut self, before: &mut Vec<Instruction>, registers: &[u64; 16]) {
        const DEPTH: usize = 3;
        let mut entered = 0;
        for depth in 0..DEPTH {
            let first = before.len().saturating_sub(SKID).max(entered);
            let Some(at) = (first..before.len()).rfind(|&at| is_call(&before[at])) else { return };
            // Within the function its registers were others.
            let registers = (depth == 0).then_some(registers);
            let function = self.function(&before[at].clone(), registers);
            let is_return = |one: &Instruction, _| one.flow_control() == FlowControl::Return;
            let way = function.and_then(|start| self.shortest_way(start, is_return));
            entered = at + 1;
            before.splice(entered..entered, way.unwrap_or_default());
        }
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

fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
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

fn goes_on(instruction: &Instruction) -> bool {
    successors(instruction)[0] == Some(instruction.next_ip())
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
        let best = ends_there.max_by_key(|(votes, _)| **votes);
        // Nobody comes past a return or a jump.
        let Some((_, best)) = best.filter(|(_, best)| goes_on(best)) else { break };
        end = best.ip();
        instructions.push(best);
    }
    instructions.reverse();
    instructions
}

/// Stands for memory where registers are bits.
const MEMORY: u64 = 1 << 32;

/// What an instruction reads and writes: registers as encodings number them, and memory.
#[derive(Default)]
struct Used {
    read: u32,
    written: u32,
    loads: bool,
    stores: bool,
}

impl Used {
    fn by(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Self {
        let info = factory.info(instruction);
        let mut used = Self::default();
        for register in info.used_registers() {
            let Some(number) = number(register.register()) else { continue };
            let (reads, writes) = directions(register.access());
            used.read |= u32::from(reads) << number;
            used.written |= u32::from(writes) << number;
        }
        for memory in info.used_memory() {
            let (loads, stores) = directions(memory.access());
            used.loads |= loads;
            used.stores |= stores;
        }
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

/// Whether a loop's rounds are all alike: no register's value is made of what an earlier round has made, and nothing is stored
/// that was loaded.
fn leaves_nothing(cycle: &[Instruction]) -> bool {
    let mut factory = InstructionInfoFactory::new();
    // What each register is made of: registers at the beginning of the round, and memory.
    let mut made_of: [u64; 32] = std::array::from_fn(|register| 1 << register);
    let mut written = 0;
    // Twice, as the end of the loop may load what its beginning stores.
    for (step, instruction) in cycle.iter().chain(cycle).enumerate() {
        if step == cycle.len() {
            (0..32).for_each(|register| {
                made_of[register] = made_of[register] & MEMORY | 1 << register
            });
        }
        let used = Used::by(instruction, &mut factory);
        let made = registers(used.read).fold(0, |made, register| made | made_of[register]);
        if is_call(instruction) || used.stores && (used.loads || made & MEMORY != 0) {
            return false;
        }
        let made = if used.loads { made | MEMORY } else { made };
        registers(used.written).for_each(|register| made_of[register] = made);
        written |= used.written;
    }
    changing(&made_of, written) == 0
}

/// The registers that may differ from round to round: of those that are written, the ones that are made of such.
fn changing(made_of: &[u64; 32], written: u32) -> u32 {
    let mut changing = written;
    loop {
        let made_of_changing = |&register: &usize| made_of[register] & u64::from(changing) != 0;
        let still = registers(changing).filter(made_of_changing).fold(0, |all, one| all | 1 << one);
        if still == changing {
            return changing;
        }
        changing = still;
    }
}

fn registers(set: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |register| set >> register & 1 == 1)
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
    let is_known = !registers(gone).any(|register| operand.uses(register as u8));
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
