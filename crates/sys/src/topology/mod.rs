//! The processors of a machine as the kernel describes them: packages, NUMA nodes, cores, siblings, caches.
//!
//! From `/sys/devices/system/cpu` and `/sys/devices/system/node` (Documentation/ABI/stable/sysfs-devices-system-cpu),
//! of this machine or of a copy under another root.

mod caches;
#[doc(hidden)]
pub mod described;
mod error;
mod files;
mod read;
#[cfg(test)]
mod tests;

pub use error::TopologyError;
pub use read::read_cores;

use std::fmt;

use crate::cpu::CpuSet;

/// The CPUs that are online, and what they share.
///
/// # Examples
///
/// ```
/// use daiko_sys::topology::Topology;
///
/// let machine = Topology::read()?;
/// for cpu in machine.cpus() {
///     assert!(machine.siblings(cpu.id).contains(cpu.id));
/// }
/// # Ok::<(), daiko_sys::topology::TopologyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// In ascending order of `id`.
    cpus: Vec<Cpu>,
    /// By number; they are disjoint, and together all of `cpus`.
    cores: Vec<CpuSet>,
    nodes: Vec<Node>,
    caches: Vec<Cache>,
    allowed: CpuSet,
    offline: CpuSet,
    control: Control,
}

/// A CPU that is online: one hardware thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Its number in the kernel.
    pub id: usize,
    /// Its package (socket), as the kernel numbers it; 0 where the kernel does not know.
    pub package: usize,
    /// Its NUMA node, as the kernel numbers it; 0 where the kernel lists none.
    pub node: usize,
    /// Its core: cores are numbered from 0 by their first CPU.
    pub core: usize,
    /// Its place among the online CPUs of its core.
    pub thread: usize,
    /// How fast its core is, in 1024ths of the fastest, as the kernel says (`cpu_capacity`). Where it only
    /// tells efficient cores from others (hybrid x86), they have 512: a rank, no measurement. Otherwise 1024.
    pub capacity: u32,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its number in the kernel.
    pub id: usize,
    /// Its online CPUs; empty for one that is memory only.
    pub cpus: CpuSet,
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CacheKind {
    /// Data.
    Data,
    /// Instructions.
    Instruction,
    /// Both.
    Unified,
}

/// A cache and the online CPUs that share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// 1 is next to the core.
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// In bytes; `None` where the kernel does not say.
    pub size: Option<u64>,
    /// Who shares it.
    pub cpus: CpuSet,
}

/// What the kernel says of its switch for siblings (`smt/control`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Control {
    On,
    Off,
    ForcedOff,
    /// There are no siblings, or the kernel has no such switch.
    None,
}

/// Whether siblings can be used together, and why not.
///
/// Its `Display` says so in one line, with the remedy where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Smt {
    /// Two CPUs of a core are allowed.
    Usable,
    /// There are siblings, but of no core two are allowed.
    Excluded,
    /// CPUs are offline, siblings it seems: they were switched off one by one, as the kernel's control has them on.
    Offline,
    /// There are siblings, but the kernel's control has them off.
    Off,
    /// The same, and nothing switches them on before the next boot.
    ForcedOff,
    /// No core has a second CPU.
    Absent,
}

impl fmt::Display for Smt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Usable => "siblings are there and allowed",
            Self::Excluded => {
                "of no core are two siblings allowed: allow them (taskset, or cpuset.cpus of the control group)"
            }
            Self::Offline => {
                "no core has two CPUs online: as root, write 1 to /sys/devices/system/cpu/cpuN/online of those that are offline"
            }
            Self::Off => {
                "siblings are offline: as root, write 'on' to /sys/devices/system/cpu/smt/control"
            }
            Self::ForcedOff => {
                "siblings are off until the next boot: boot without nosmt=force and what implies it (l1tf=full,force)"
            }
            Self::Absent => "no core has siblings: this processor or virtual machine has none",
        })
    }
}

impl Topology {
    /// The online CPUs, in ascending order.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus
    }

    /// The online CPU of that number.
    pub fn cpu(&self, id: usize) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|at| &self.cpus[at])
    }

    /// The CPUs that the process may run on and that are online.
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// The CPUs that are there but switched off.
    pub fn offline(&self) -> &CpuSet {
        &self.offline
    }

    /// The NUMA nodes, in ascending order. CPUs of which the kernel lists no node are in node 0.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All caches, by level, then by their first CPU, then by kind.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// The online hardware threads of that CPU's core, itself included; empty if it is not online.
    pub fn siblings(&self, id: usize) -> CpuSet {
        self.cpu(id).map_or_else(CpuSet::new, |cpu| self.core(cpu.core))
    }

    /// The online CPUs of a core; empty if there is no such core.
    pub fn core(&self, core: usize) -> CpuSet {
        self.cores.get(core).cloned().unwrap_or_default()
    }

    /// How many cores have a CPU online.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Whether two CPUs of a core are both allowed.
    pub fn has_siblings(&self) -> bool {
        self.cores.iter().any(|core| core.intersection(&self.allowed).len() > 1)
    }

    /// Whether siblings can be used together, and why not.
    ///
    /// # Examples
    ///
    /// ```
    /// use daiko_sys::topology::{Smt, Topology};
    ///
    /// let machine = Topology::read()?;
    /// assert_eq!(machine.smt() == Smt::Usable, machine.has_siblings());
    /// # Ok::<(), daiko_sys::topology::TopologyError>(())
    /// ```
    pub fn smt(&self) -> Smt {
        if self.has_siblings() {
            Smt::Usable
        } else if self.cores.iter().any(|core| core.len() > 1) {
            Smt::Excluded
        } else if self.offline.is_empty() {
            Smt::Absent
        } else {
            match self.control {
                Control::On => Smt::Offline,
                Control::Off => Smt::Off,
                Control::ForcedOff => Smt::ForcedOff,
                Control::None => Smt::Absent,
            }
        }
    }
}
