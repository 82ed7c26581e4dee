//! The code around an address, and the instruction that a thread at this address was waiting for.
//!
//! A timer interrupt is taken once the awaited instruction has retired, so the address of a sample
//! is that of the next instruction.

mod access;
mod kind;
mod replay;
mod text;
mod used;

use daiko_sys::sampling::Sample;
use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic};

pub(super) use access::Access;
pub(super) use kind::{InstructionKind, STACK};
pub(super) use replay::StackWords;
pub use text::ReadCode;

use access::accesses;
use kind::{is_call, is_on_stack, kind, touches_memory};
use text::{SKID, Text, WINDOW, tail};
use used::{Used, leaves_nothing};

/// Number of instructions behind an address with addresses to be computed: more than a round of
/// most loops, as they need not be the next executed.
const AHEAD: usize = 64;
/// The surroundings of an address.
#[derive(Clone, Debug, Default)]
pub(super) struct Site {
    /// True if the code cannot be read.
    pub(super) unread: bool,
    /// The awaited instruction: kind and address.
    pub(super) culprit: Option<(InstructionKind, u64)>,
    /// True if it is a locked instruction.
    pub(super) locked: bool,
    /// True if code nearby writes a line back or stores past the caches.
    pub(super) writes_back: bool,
    /// True if a fence is nearby.
    pub(super) fences: bool,
    /// True if the instructions that retired last include a store, even to the stack.
    pub(super) stores: bool,
    /// True in a loop that writes lines back and fences in each round; or if the instructions that
    /// retired last use memory, in a loop that calls a function to write lines back. The loop is
    /// short, so that a fence takes most of a round, and is still awaited in the next round.
    pub(super) drains: bool,
    /// True if the instructions that retired last use memory.
    pub(super) waits: bool,
    /// The instructions of a round of the loop around the sample, or of the innermost loop around
    /// its callers, from the sample or from the return to that loop on.
    pub(super) round: Vec<u64>,
    /// True inside a loop that carries nothing from round to round: it waits for another thread.
    pub(super) spins: bool,
    pub(super) accesses: Vec<Access>,
    before: Vec<Instruction>,
    after: Vec<Instruction>,
}

impl Site {
    /// Analyses the code around the address of `sample`. The sample's registers determine the
    /// targets of calls.
    pub(super) fn at(code: &mut dyn ReadCode, sample: &Sample) -> Self {
        let Sample { address, ref registers, bits } = *sample;
        if code.read(address, &mut [0]) == 0 {
            return Self { unread: true, ..Self::default() };
        }
        let mut text = Text { code, bits };
        let cycle = text.cycle(address);
        let ahead = match &cycle {
            Some(cycle) => cycle.iter().copied().take(AHEAD).collect(),
            None => text.straight(address, AHEAD),
        };
        let after = &ahead[..ahead.len().min(WINDOW)];
        // In memory order: the nearest instruction comes last.
        let mut before = match &cycle {
            Some(cycle) => tail(cycle),
            None => text.caller(sample).unwrap_or_else(|| text.before(address)),
        };
        // A call that ends elsewhere was followed already and leads here.
        if before.last().is_none_or(|last| last.next_ip() == address || !is_call(last)) {
            text.enter_calls(&mut before, registers);
        }
        let around = || before.iter().chain(after);
        let writes_back = around().any(|instruction| writes_back(kind(instruction)));
        let kind = |instruction: &Instruction| match kind_beside(instruction, writes_back) {
            InstructionKind::Memory if is_on_stack(instruction, registers) => {
                InstructionKind::Plain
            }
            kind => kind,
        };
        let culprit = repeated(after).or_else(|| culprit(&before, &kind));
        // Memory copied by a call may go past the caches as well, if it is large. A line is written
        // back only on purpose.
        let is_flush = |kind| kind == InstructionKind::Flush;
        let waits = before.iter().rev().take(SKID).any(uses_memory) || begins(&before);
        let outer = if waits && cycle.is_none() { text.outer_cycle(sample) } else { None };
        let drains = cycle.as_deref().is_some_and(flushes_each_round)
            || waits
                && cycle.as_ref().or(outer.as_ref()).is_some_and(|cycle| {
                    flushes_each_round(cycle)
                        || text.has_in_calls(cycle.iter(), registers, is_flush)
                });
        let behind_a_fence = matches!(culprit, Some((InstructionKind::Fence, _)));
        Self {
            unread: false,
            culprit,
            locked: before.iter().any(|instruction| {
                is_locked(instruction) && culprit.is_some_and(|(_, at)| at == instruction.ip())
            }),
            writes_back: writes_back
                || behind_a_fence && text.has_in_calls(around(), registers, self::writes_back),
            fences: around().any(|instruction| kind(instruction) == InstructionKind::Fence),
            drains,
            waits,
            round: cycle
                .as_ref()
                .or(outer.as_ref())
                .map_or_else(Vec::new, |round| round.iter().map(Instruction::ip).collect()),
            stores: before.iter().rev().take(SKID).any(stores),
            spins: cycle.is_some_and(|cycle| leaves_nothing(&cycle)),
            accesses: accesses(&before, after),
            before,
            after: ahead,
        }
    }

    /// The addresses of data around one sample at this site: the instruction and its address.
    pub(super) fn addresses(&self, registers: &[u64; 16], stack: &StackWords) -> Vec<(u64, u64)> {
        let told = |Access { at, operand }: &Access| (*at, operand.address(registers));
        let mut addresses: Vec<_> = self.accesses.iter().map(told).collect();
        for (at, address) in replay::addresses(&self.before, &self.after, registers, stack) {
            if addresses.iter().all(|(known, _)| *known != at) {
                addresses.push((at, address));
            }
        }
        addresses
    }
}

/// Finds a repeated string instruction that is interrupted between its rounds: the sample is at it.
fn repeated(after: &[Instruction]) -> Option<(InstructionKind, u64)> {
    let first = after.first()?;
    let repeats = first.has_rep_prefix() || first.has_repne_prefix();
    (repeats && first.is_string_instruction()).then_some((InstructionKind::Memory, first.ip()))
}

/// The nearest slow instruction among those that may have retired together. A store, including that
/// of a call, waits for the fence before it.
fn culprit(
    before: &[Instruction],
    kind: &dyn Fn(&Instruction) -> InstructionKind,
) -> Option<(InstructionKind, u64)> {
    let named = |instruction: &Instruction| Some((kind(instruction), instruction.ip()));
    for (distance, instruction) in before.iter().rev().take(SKID).enumerate() {
        if !matches!(kind(instruction), InstructionKind::Memory | InstructionKind::Plain) {
            return named(instruction);
        }
        if stores(instruction) {
            let earlier = before.iter().rev().skip(distance + 1);
            let mut earlier = earlier.take_while(|instruction| {
                kind(instruction) == InstructionKind::Fence || !stores(instruction)
            });
            if let Some(fence) =
                earlier.find(|instruction| kind(instruction) == InstructionKind::Fence)
            {
                return named(fence);
            }
        }
        if kind(instruction) == InstructionKind::Memory {
            return named(instruction);
        }
    }
    None
}

fn stores(instruction: &Instruction) -> bool {
    kind(instruction) == InstructionKind::Nontemporal
        || Used::by(instruction, &mut InstructionInfoFactory::new()).stores
}

/// Returns true at the beginning of a function, behind padding only: a call or jump led there.
fn begins(before: &[Instruction]) -> bool {
    before.iter().all(|instruction| instruction.mnemonic() == Mnemonic::Nop)
}

/// A call stores its return address.
fn uses_memory(instruction: &Instruction) -> bool {
    Used::by(instruction, &mut InstructionInfoFactory::new()).uses_memory()
}

/// Returns true if each round of a loop writes lines back and waits for that. The shortest round
/// contains no instruction that only some rounds reach.
fn flushes_each_round(cycle: &[Instruction]) -> bool {
    let has = |is: &dyn Fn(&Instruction) -> bool| cycle.iter().any(is);
    has(&|instruction| kind(instruction) == InstructionKind::Flush)
        && has(&|instruction| kind_beside(instruction, true) == InstructionKind::Fence)
}

fn writes_back(kind: InstructionKind) -> bool {
    matches!(kind, InstructionKind::Flush | InstructionKind::Nontemporal)
}

/// [`kind`], but near flushes a locked instruction counts as a fence, as it waits for them.
fn kind_beside(instruction: &Instruction, writes_back: bool) -> InstructionKind {
    if writes_back && is_locked(instruction) { InstructionKind::Fence } else { kind(instruction) }
}

fn is_locked(instruction: &Instruction) -> bool {
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg && touches_memory(instruction);
    exchanges || instruction.has_lock_prefix()
}

#[cfg(test)]
mod tests;
