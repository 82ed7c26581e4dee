//! What the code around an address does, and what a thread that is there was waiting for.
//!
//! A timer's interrupt is taken once the instruction that is being waited for has retired, so that the address of a sample is
//! that of the instruction behind it.

mod access;
mod text;
mod used;

use daiko_sys::sampling::Sample;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind};

pub(super) use access::Access;
pub use text::ReadCode;

use access::accesses;
use text::Text;
use used::{Used, leaves_nothing};

/// Instructions that are looked at before and behind an address.
const WINDOW: usize = 16;
/// What retires with the one that was waited for may be up to so many.
const SKID: usize = 4;

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

fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
}

#[cfg(test)]
mod tests;
