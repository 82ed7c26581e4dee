//! Registers and memory that instructions read and write, and values that a loop carries from round
//! to round.

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, Register};

use super::kind::is_call;

/// Stands for memory in sets of registers.
const MEMORY: u64 = 1 << 32;

/// The registers that an instruction reads and writes, by their numbers in encodings, and its use
/// of memory.
#[derive(Default)]
pub(super) struct Used {
    read: u32,
    pub(super) written: u32,
    loads: bool,
    pub(super) stores: bool,
}

impl Used {
    pub(super) fn by(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Self {
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

impl Used {
    pub(super) fn uses_memory(&self) -> bool {
        self.loads || self.stores
    }

    /// Returns true if the instruction writes this register or a part of it.
    pub(super) fn writes(&self, register: Register) -> bool {
        number(register).is_some_and(|number| self.written >> number & 1 == 1)
    }
}

fn directions(access: OpAccess) -> (bool, bool) {
    use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite, Write};
    let reads = matches!(access, Read | CondRead | ReadWrite | ReadCondWrite);
    let writes = matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite);
    (reads, writes)
}

/// The number in encodings; vector registers follow from 16 on.
fn number(register: Register) -> Option<u8> {
    if register.is_gpr() {
        return Some(register.full_register().number() as u8);
    }
    register.is_vector_register().then(|| 16 + (register.number() % 16) as u8)
}

/// Returns true if all rounds of a loop are alike: no register's value depends on an earlier round,
/// and no stored value depends on a loaded one.
pub(super) fn leaves_nothing(cycle: &[Instruction]) -> bool {
    let mut factory = InstructionInfoFactory::new();
    // The sources of each register's value: registers at the beginning of the round, and memory.
    let mut made_of: [u64; 32] = std::array::from_fn(|register| 1 << register);
    let mut written = 0;
    // Two rounds, as the end of the loop may load a value that its beginning stores.
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

/// The registers that may differ from round to round: the written registers that depend on such
/// registers.
fn changing(made_of: &[u64; 32], written: u32) -> u32 {
    let mut changing = written;
    loop {
        let made_of_changing = |&register: &usize| made_of[register] & u64::from(changing) != 0;
        let still = registers(changing)
            .filter(made_of_changing)
            .fold(0, |all, register| all | 1 << register);
        if still == changing {
            return changing;
        }
        changing = still;
    }
}

pub(super) fn registers(set: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |register| set >> register & 1 == 1)
}
