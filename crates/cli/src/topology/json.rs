//! `--json`: an object in one line, for programs. Fields may be added; these keep their names and
//! meanings.
//!
//! - `cpus`: all online CPUs, with `id`, `package`, `node` (the kernel's numbers), `core` (from 0),
//!   `thread` (within its core, from 0), `capacity` (in 1024ths), `allowed`
//! - `offline`: the numbers of the CPUs that are switched off
//! - `nodes`: all NUMA nodes, with `id`, `cpus` (the numbers of those online)
//! - `caches`: all caches, with `level`, `kind` (`data`, `instruction`, `unified`), `bytes` (or
//!   null), `cpus`
//! - `smt`: `usable`, `excluded` (by the mask), `offline` (CPU by CPU), `off`, `forced-off` (until
//!   the next boot) or `absent`
//! - `pairing`: true if siblings can be paired
//! - `quota`, `workers`: CPUs that the control group grants (or null), default number of workers;
//!   both null with `--root`

use daiko_sys::{
    cpu::CpuSet,
    topology::{Cache, CacheKind, Cpu, Node, Smt, Topology},
};
use serde_json::{Value, json};

use super::Share;

pub(super) fn of(machine: &Topology, share: Option<&Share>) -> Value {
    let cpu = |cpu: &Cpu| {
        json!({
            "id": cpu.id,
            "package": cpu.package,
            "node": cpu.node,
            "core": cpu.core,
            "thread": cpu.thread,
            "capacity": cpu.capacity,
            "allowed": machine.allowed().contains(cpu.id),
        })
    };
    let node = |node: &Node| json!({ "id": node.id, "cpus": numbers(&node.cpus) });
    json!({
        "cpus": machine.cpus().iter().map(cpu).collect::<Vec<_>>(),
        "offline": numbers(machine.offline()),
        "nodes": machine.nodes().iter().map(node).collect::<Vec<_>>(),
        "caches": machine.caches().iter().map(cache).collect::<Vec<_>>(),
        "smt": smt(machine.smt()),
        "pairing": machine.has_siblings(),
        "quota": share.and_then(|share| share.quota),
        "workers": share.map(|share| share.workers),
    })
}

fn numbers(cpus: &CpuSet) -> Vec<usize> {
    cpus.iter().collect()
}

fn cache(cache: &Cache) -> Value {
    let kind = match cache.kind {
        CacheKind::Data => "data",
        CacheKind::Instruction => "instruction",
        CacheKind::Unified => "unified",
    };
    json!({
        "level": cache.level,
        "kind": kind,
        "bytes": cache.size,
        "cpus": numbers(&cache.cpus),
    })
}

fn smt(smt: Smt) -> &'static str {
    match smt {
        Smt::Usable => "usable",
        Smt::Excluded => "excluded",
        Smt::Offline => "offline",
        Smt::Off => "off",
        Smt::ForcedOff => "forced-off",
        Smt::Absent => "absent",
    }
}
