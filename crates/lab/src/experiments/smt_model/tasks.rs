//! Demands of P4's tasks on its machine. No value is from P4's results. The one deduced value, the
//! work of `nosmt`, belongs to the setting rather than to a task.
//!
//! - `CYCLE`, 1 / 2.1 ns: P4, table 1: Xeon Gold 6230 at a fixed 2.10 GHz.
//! - `WIDTH`, 4 issue slots a cycle: Skylake server core (Intel's optimization reference manual);
//!   Cascade Lake has the same.
//! - `BUFFERS`, 12 fill buffers of the first data cache: likewise.
//! - `DRAM_LATENCY`, 96 ns: P4, section 1, after Hirofuchi and Takano, IEICE 2020.
//! - `DRAM_BANDWIDTH`, 140.8 bytes a ns: six channels of DDR4-2933, which the processor supports: 6
//!   x 8 bytes x 2.933 GHz.
//! - `PERSIST_LATENCY`, 90 ns: Yang et al., "An empirical guide to the behavior and use of scalable
//!   persistent memory", FAST 2020: a non-temporal store until its fence.
//! - `PMEM_BANDWIDTH`, 13.8 bytes a ns: the same: writes of six modules, 2.3 each.
//! - `IDIV_*`, 57 micro-operations, 24 to 42 cycles: Fog, "Instruction tables", Skylake-X: 64-bit
//!   IDIV, at its best: throughput and latency.
//! - `L2_LATENCY`, 14 cycles: Intel's manual.
//! - `ADD_LATENCY`, 4 cycles: Fog, likewise: floating-point addition.
//!
//! Counts of micro-operations are those of the loops in `crates/lab/src/smt`, counted by hand and
//! rounded: 60 for a `memmove` of 256 bytes and the choice of its place, 120 with libpmem's way
//! there and a flush for each line, 6 for a multiplication and addition of the product, 32 for
//! eight additions of the sum. P4's read latency of persistent memory (391 ns) is not used: its IO
//! tasks only write.
//!
//! The times of a task add up to that of the task alone: where the processor overlaps a station
//! with a longer wait, only the rest of the wait counts as such.

//!
//! # Set 2
//!
//! - The IO task is the map of [`smt`](crate::experiments::smt), with libpmemobj 1.12.1 of Debian,
//!   each unit a transaction: `MAP_*` were counted by single steps over 68 of its transactions,
//!   with lines flushed rather than written past the cache. Its instructions take two a cycle, as
//!   those of the CPU tasks.
//! - The CPU tasks are no benchmarks of SPEC CPU, but two assumed bounds, between which most of
//!   P4's 23 should lie: 1,000 instructions without a cache miss at two a cycle, and as many that
//!   wait as long again for DRAM, one line at a time.

use crate::kit::p4::comparison::{DRAM, PMEM, RBTREE};

use super::network::Demand;

/// Duration of a cycle in nanoseconds.
const CYCLE: f64 = 1.0 / 2.1;
const WIDTH: f64 = 4.0;
const BUFFERS: f64 = 12.0;
const DRAM_LATENCY: f64 = 96.0;
const DRAM_BANDWIDTH: f64 = 140.8;
const PERSIST_LATENCY: f64 = 90.0;
const PMEM_BANDWIDTH: f64 = 13.8;
const IDIV_OPERATIONS: f64 = 57.0;
const IDIV_THROUGHPUT: f64 = 24.0;
const IDIV_LATENCY: f64 = 42.0;
const L2_LATENCY: f64 = 14.0;
const ADD_LATENCY: f64 = 4.0;
/// Instructions, fences and flushed lines of a transaction.
const MAP_INSTRUCTIONS: f64 = 13_126.0;
const MAP_FENCES: f64 = 16.5;
const MAP_LINES: f64 = 22.4;
/// Instructions a cycle of the tasks of set 2.
const PER_CYCLE: f64 = 2.0;
/// Bytes of a cache line.
const LINE: f64 = 64.0;
/// Cache lines of a write.
const LINES: f64 = 4.0;

/// A task by its name in results.
pub(super) type NamedTask = (&'static str, Demand);

/// An IO task and a CPU task that run together.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskPair {
    pub(super) io: NamedTask,
    pub(super) cpu: NamedTask,
}

/// The pairs of tasks: each of set 1, with the units a write of 256 bytes, and a division, a
/// multiplication and addition, or a line of the sum; then those of set 2.
pub(super) fn pairs() -> Vec<TaskPair> {
    let of = |io, cpu: &[NamedTask]| cpu.iter().map(|cpu| TaskPair { io, cpu: *cpu }).collect();
    let set1 = [("idiv", idiv()), ("product", product()), ("sum", sum())];
    let set2 = [("core-bound", core_bound()), ("memory-bound", memory_bound())];
    let pairs: [Vec<_>; 3] =
        [of((DRAM, dram()), &set1), of((PMEM, pmem()), &set1), of((RBTREE, map()), &set2)];
    pairs.concat()
}

/// Writes that do not wait for each other: as many lines are read as there are buffers, and they
/// are written back later.
fn dram() -> Demand {
    Demand {
        slots: issued(60.0),
        buffers: LINES * DRAM_LATENCY / BUFFERS,
        dram: 2.0 * LINES * LINE / DRAM_BANDWIDTH,
        ..Demand::default()
    }
}

/// Each write waits for its fence. Its lines occupy a third of the buffers during that time.
fn pmem() -> Demand {
    let buffers = LINES * PERSIST_LATENCY / BUFFERS;
    Demand {
        slots: issued(120.0),
        buffers,
        pmem: LINES * LINE / PMEM_BANDWIDTH,
        alone: PERSIST_LATENCY - buffers,
        ..Demand::default()
    }
}

/// Each division waits for the previous one.
fn idiv() -> Demand {
    let (slots, divider) = (issued(IDIV_OPERATIONS), IDIV_THROUGHPUT * CYCLE);
    let alone = IDIV_LATENCY * CYCLE - slots - divider;
    Demand { slots, divider, alone, ..Demand::default() }
}

/// Each addition waits for the previous one, while the columns' lines come from the second-level
/// cache.
fn product() -> Demand {
    let (slots, buffers) = (issued(6.0), L2_LATENCY * CYCLE / BUFFERS);
    Demand { slots, buffers, alone: ADD_LATENCY * CYCLE - slots - buffers, ..Demand::default() }
}

/// Without prefetchers, the lines determine the time: two are read, one is read and written.
fn sum() -> Demand {
    Demand {
        slots: issued(32.0),
        buffers: 3.0 * DRAM_LATENCY / BUFFERS,
        dram: 4.0 * LINE / DRAM_BANDWIDTH,
        ..Demand::default()
    }
}

/// Time to issue this many micro-operations.
fn issued(operations: f64) -> f64 {
    operations / WIDTH * CYCLE
}

fn map() -> Demand {
    let fences = MAP_FENCES * PERSIST_LATENCY;
    let buffers = MAP_LINES * PERSIST_LATENCY / BUFFERS;
    let code = code(MAP_INSTRUCTIONS);
    Demand {
        buffers,
        pmem: MAP_LINES * LINE / PMEM_BANDWIDTH,
        alone: code.alone + fences - buffers,
        ..code
    }
}

fn core_bound() -> Demand {
    code(1000.0)
}

/// Waits for DRAM as long as it computes.
fn memory_bound() -> Demand {
    let code = code(1000.0);
    let lines = code.total() / DRAM_LATENCY;
    let (buffers, dram) = (lines * DRAM_LATENCY / BUFFERS, lines * LINE / DRAM_BANDWIDTH);
    Demand { buffers, dram, alone: code.alone + code.total() - buffers - dram, ..code }
}

/// Instructions without a cache miss. Where they are not bound by the issue slots, they wait for
/// results.
fn code(instructions: f64) -> Demand {
    let slots = issued(instructions);
    Demand { slots, alone: instructions / PER_CYCLE * CYCLE - slots, ..Demand::default() }
}
