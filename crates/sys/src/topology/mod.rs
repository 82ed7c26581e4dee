//! The processors of a machine as the kernel describes them: packages, NUMA nodes, cores, siblings, caches.
//!
//! From `/sys/devices/system/cpu` and `/sys/devices/system/node` (Documentation/ABI/stable/sysfs-devices-system-cpu),
//! of this machine or of a copy under another root.

mod read;

pub use read::TopologyError;

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
    caches: Vec<Cache>,
    allowed: CpuSet,
    offline: CpuSet,
}

/// A CPU that is online: one hardware thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Its number in the kernel.
    pub id: usize,
    /// Its package (socket), as the kernel numbers it.
    pub package: usize,
    /// Its NUMA node, as the kernel numbers it; 0 where the kernel has none.
    pub node: usize,
    /// Its core: cores are numbered from 0 by their first CPU.
    pub core: usize,
    /// Its place among the online CPUs of its core.
    pub thread: usize,
    /// How fast its core is, in 1024ths of the fastest; 1024 where the kernel does not say.
    pub capacity: u32,
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

    /// All caches, by level, then by their first CPU.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// The online hardware threads of that CPU's core, itself included; empty if it is not online.
    pub fn siblings(&self, id: usize) -> CpuSet {
        self.cpu(id).map_or_else(CpuSet::new, |cpu| self.core(cpu.core))
    }

    /// The online CPUs of a core.
    pub fn core(&self, core: usize) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.core == core).map(|cpu| cpu.id).collect()
    }

    /// How many cores have a CPU online.
    pub fn cores(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.core + 1).max().unwrap_or(0)
    }

    /// Whether two CPUs of a core are both allowed.
    pub fn has_siblings(&self) -> bool {
        let allowed =
            |core: &usize| self.core(*core).iter().filter(|id| self.allowed.contains(*id)).count();
        (0..self.cores()).any(|core| allowed(&core) > 1)
    }
}
