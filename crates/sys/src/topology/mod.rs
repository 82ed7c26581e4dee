//! The processors of a machine in the kernel's description: packages, NUMA nodes, cores, siblings,
//! caches.
//!
//! The source is `/sys/devices/system/cpu` and `/sys/devices/system/node`
//! (Documentation/ABI/stable/sysfs-devices-system-cpu), of this machine or of a copy under another
//! root.

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

/// The CPUs that are online, with their cores, nodes and caches.
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
    /// Sorted by `id`, ascending.
    cpus: Vec<Cpu>,
    /// Indexed by number. The sets are disjoint, and their union is `cpus`.
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
    /// The kernel's number.
    pub id: usize,
    /// The kernel's number of its package (socket); 0 if unknown.
    pub package: usize,
    /// The kernel's number of its NUMA node; 0 if the kernel lists none.
    pub node: usize,
    /// The number of its core. Cores are numbered from 0 by their first CPU.
    pub core: usize,
    /// The index among the online CPUs of its core.
    pub thread: usize,
    /// Speed of its core in 1024ths of the fastest core, from the kernel (`cpu_capacity`). If the
    /// kernel only distinguishes efficient cores (hybrid x86), they have 512, a rank and no
    /// measurement. Otherwise 1024.
    pub capacity: u32,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The kernel's number.
    pub id: usize,
    /// The node's online CPUs; empty for a node with memory only.
    pub cpus: CpuSet,
}

/// The contents of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CacheKind {
    /// Data.
    Data,
    /// Instructions.
    Instruction,
    /// Data and instructions.
    Unified,
}

/// A cache and the online CPUs that share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// The level: 1 is next to the core.
    pub level: u32,
    /// The contents.
    pub kind: CacheKind,
    /// Size in bytes; `None` if the kernel does not report it.
    pub size: Option<u64>,
    /// The CPUs that share it.
    pub cpus: CpuSet,
}

/// The state of the kernel's switch for siblings (`smt/control`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Control {
    On,
    Off,
    ForcedOff,
    /// No siblings, or no such switch in the kernel.
    None,
}

/// Tells if siblings can be used together, and the reason if not.
///
/// Its `Display` is one line, with the remedy if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Smt {
    /// Two CPUs of a core are allowed.
    Usable,
    /// Siblings are online, but no core has two allowed CPUs.
    Excluded,
    /// CPUs are offline, apparently siblings switched off one by one, as the kernel's control is
    /// on.
    Offline,
    /// The machine has siblings, but the kernel's control is off.
    Off,
    /// The control is off and cannot be switched on before the next boot.
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
                "siblings are off until the next boot: boot without nosmt=force and the options that imply it (l1tf=full,force)"
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

    /// The online CPU with that number.
    pub fn cpu(&self, id: usize) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|at| &self.cpus[at])
    }

    /// The CPUs that are online and that the process may run on.
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// The CPUs that exist but are switched off.
    pub fn offline(&self) -> &CpuSet {
        &self.offline
    }

    /// The NUMA nodes, in ascending order. CPUs without a node are in node 0.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All caches, ordered by level, first CPU and kind.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// The size of the largest cache in bytes; `None` if the kernel does not report any.
    pub fn largest_cache(&self) -> Option<u64> {
        self.caches.iter().filter_map(|cache| cache.size).max()
    }

    /// The online hardware threads of that CPU's core, including the CPU; empty if it is not
    /// online.
    pub fn siblings(&self, id: usize) -> CpuSet {
        self.cpu(id).map_or_else(CpuSet::new, |cpu| self.core(cpu.core))
    }

    /// The online CPUs of a core; empty if there is no such core.
    pub fn core(&self, core: usize) -> CpuSet {
        self.cores.get(core).cloned().unwrap_or_default()
    }

    /// The number of cores with an online CPU.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Returns true if some core has two allowed CPUs.
    pub fn has_siblings(&self) -> bool {
        self.cores.iter().any(|core| core.intersection(&self.allowed).len() > 1)
    }

    /// Tells if siblings can be used together, and the reason if not.
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
