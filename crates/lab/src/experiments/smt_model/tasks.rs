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
/// Bytes of a cache line.
const LINE: f64 = 64.0;
/// Cache lines of a write.
const LINES: f64 = 4.0;

/// The IO tasks, by their names in results. A unit is a write of 256 bytes.
pub(super) fn io() -> [(&'static str, Demand); 2] {
    [("dram", dram()), ("pmem", pmem())]
}

/// The CPU tasks. A unit is a division, a multiplication and addition, or a line of the sum.
pub(super) fn cpu() -> [(&'static str, Demand); 3] {
    [("idiv", idiv()), ("product", product()), ("sum", sum())]
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
