//! Reading a description.

use std::collections::BTreeMap;
use std::path::Path;

use super::files::{self, FileReader, Files};
use super::{Control, Cpu, Node, Topology, TopologyError, caches};
use crate::cpu::{self, CpuSet};

const ONLINE: &str = "sys/devices/system/cpu/online";

/// The capacity of the fastest core, in the kernel's unit.
const FULL: u32 = 1024;

/// Capacity of an efficient core without a figure from the kernel: any value between 0 and [`FULL`]
/// ranks it.
const EFFICIENT: u32 = FULL / 2;

/// The lists of efficient cores of a hybrid x86: those of their event sources.
const EFFICIENT_CPUS: [&str; 2] = ["sys/devices/cpu_atom/cpus", "sys/devices/cpu_lowpower/cpus"];

/// Number of attempts to read a description while CPUs change.
const ATTEMPTS: usize = 8;

impl Topology {
    /// Reads this machine. Allowed are the CPUs of the calling thread.
    ///
    /// # Errors
    ///
    /// [`TopologyError`] if sysfs is not mounted, for example.
    pub fn read() -> Result<Self, TopologyError> {
        let allowed = cpu::allowed().map_err(TopologyError::Affinity)?;
        Self::read_in(Path::new("/"), Some(&allowed))
    }

    /// Reads the files under `root`.
    ///
    /// Without `allowed`, the allowed CPUs are those in `proc/self/status`, or all online CPUs if
    /// `root` lacks that file.
    ///
    /// # Errors
    ///
    /// [`TopologyError`] for a description that is incomplete, malformed or contradicts itself.
    pub fn read_in(root: &Path, allowed: Option<&CpuSet>) -> Result<Self, TopologyError> {
        Self::read_from(root, &files::of_system, allowed)
    }

    /// [`read_in`](Self::read_in) with an injected file reader.
    #[doc(hidden)]
    pub fn read_from(
        root: &Path,
        source: FileReader<'_>,
        allowed: Option<&CpuSet>,
    ) -> Result<Self, TopologyError> {
        let files = Files { root, source };
        unchanged(files, |online| machine(files, online, allowed))
    }
}

/// The online CPUs of each core of this machine, in the order of [`Topology::core`]. This reads one
/// file per CPU, a [`Topology`] some twenty.
///
/// # Errors
///
/// The errors of [`Topology::read`].
///
/// # Examples
///
/// ```
/// use daiko_sys::topology::{Topology, read_cores};
///
/// assert_eq!(read_cores()?.len(), Topology::read()?.cores());
/// # Ok::<(), daiko_sys::topology::TopologyError>(())
/// ```
pub fn read_cores() -> Result<Vec<CpuSet>, TopologyError> {
    let files = Files { root: Path::new("/"), source: &files::of_system };
    unchanged(files, |online| cores(files, online))
}

/// The result of `read`, if the same CPUs are online before and after.
fn unchanged<T>(
    files: Files<'_>,
    read: impl Fn(&CpuSet) -> Result<T, TopologyError>,
) -> Result<T, TopologyError> {
    for _ in 0..ATTEMPTS {
        let online = files.needed(ONLINE)?;
        let read = read(&online);
        // The files of a CPU come and go with it.
        if files.needed(ONLINE)? == online {
            return read;
        }
    }
    Err(TopologyError::Changing)
}

fn machine(
    files: Files<'_>,
    online: &CpuSet,
    allowed: Option<&CpuSet>,
) -> Result<Topology, TopologyError> {
    let listed = allowed.map_or_else(|| mask(files, online), |allowed| Ok(allowed.clone()))?;
    let allowed = listed.intersection(online);
    if allowed.is_empty() {
        return Err(TopologyError::NoCpu);
    }
    let present = files.needed("sys/devices/system/cpu/present")?;
    let cores = cores(files, online)?;
    let nodes = nodes(files, online)?;
    Ok(Topology {
        cpus: cpus(files, online, &cores, &nodes)?,
        cores,
        nodes,
        caches: caches::read(files, online)?,
        allowed,
        offline: present.difference(online),
        control: control(files)?,
    })
}

/// The affinity mask in `proc`.
fn mask(files: Files<'_>, online: &CpuSet) -> Result<CpuSet, TopologyError> {
    const FILE: &str = "proc/self/status";
    let status = files.text(FILE)?.unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map_or(Ok(online.clone()), |list| {
        list.trim().parse().map_err(|_| files.malformed(FILE, list.trim()))
    })
}

/// The CPUs of each core, in the order of their first CPUs.
fn cores(files: Files<'_>, online: &CpuSet) -> Result<Vec<CpuSet>, TopologyError> {
    let mut cores = Vec::new();
    let mut taken = BTreeMap::new();
    for cpu in online.iter() {
        let (file, siblings) = siblings(files, cpu, online)?;
        let core = *taken.entry(cpu).or_insert(cores.len());
        // A new core has only CPUs that are in no other core; all CPUs of a known core list the
        // same set.
        let agreed = match cores.get(core) {
            Some(known) => *known == siblings,
            None => siblings.iter().all(|sibling| *taken.entry(sibling).or_insert(core) == core),
        };
        if !agreed || !siblings.contains(cpu) {
            return Err(files.contradictory(&file));
        }
        if core == cores.len() {
            cores.push(siblings);
        }
    }
    Ok(cores)
}

/// The online CPUs of a CPU's core, and the file that lists them; before Linux 5.3 it had another
/// name.
fn siblings(
    files: Files<'_>,
    cpu: usize,
    online: &CpuSet,
) -> Result<(String, CpuSet), TopologyError> {
    let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
    for name in ["core_cpus_list", "thread_siblings_list"] {
        let file = format!("{folder}/{name}");
        if let Some(list) = files.list(&file)? {
            return Ok((file, list.intersection(online)));
        }
    }
    // A kernel for a single CPU does not describe it.
    match online.len() {
        1 => Ok((folder, online.clone())),
        _ => Err(files.missing(&format!("{folder}/core_cpus_list"))),
    }
}

/// The nodes, in ascending order; each CPU is in one node. The kernel lists no nodes if it has
/// none, and no node that is offline although its CPUs are online (all memory removed, and CPU 0):
/// then the CPUs are in node 0.
fn nodes(files: Files<'_>, online: &CpuSet) -> Result<Vec<Node>, TopologyError> {
    let mut rest = online.clone();
    let mut nodes = BTreeMap::new();
    for id in files.list("sys/devices/system/node/online")?.unwrap_or_default().iter() {
        let file = format!("sys/devices/system/node/node{id}/cpulist");
        let cpus = files.needed(&file)?.intersection(online);
        if cpus.intersection(&rest) != cpus {
            return Err(files.contradictory(&file));
        }
        rest = rest.difference(&cpus);
        nodes.insert(id, cpus);
    }
    if !rest.is_empty() {
        let first: &mut CpuSet = nodes.entry(0).or_default();
        rest.iter().for_each(|cpu| first.insert(cpu));
    }
    Ok(nodes.into_iter().map(|(id, cpus)| Node { id, cpus }).collect())
}

fn cpus(
    files: Files<'_>,
    online: &CpuSet,
    cores: &[CpuSet],
    nodes: &[Node],
) -> Result<Vec<Cpu>, TopologyError> {
    let mut places = BTreeMap::new();
    for (core, siblings) in cores.iter().enumerate() {
        places.extend(siblings.iter().enumerate().map(|(thread, cpu)| (cpu, (core, thread))));
    }
    let node_of: BTreeMap<usize, usize> =
        nodes.iter().flat_map(|node| node.cpus.iter().map(|cpu| (cpu, node.id))).collect();
    let efficient = efficient(files)?;
    let cpu = |id| {
        let (core, thread) = places[&id];
        let rank = if efficient.contains(id) { EFFICIENT } else { FULL };
        let file = format!("sys/devices/system/cpu/cpu{id}/cpu_capacity");
        let capacity = files.value(&file)?.unwrap_or(rank);
        Ok(Cpu { id, package: package(files, id)?, node: node_of[&id], core, thread, capacity })
    };
    online.iter().map(cpu).collect()
}

/// The cores that a hybrid x86 lists as efficient.
fn efficient(files: Files<'_>) -> Result<CpuSet, TopologyError> {
    let mut cpus = CpuSet::new();
    for file in EFFICIENT_CPUS {
        let listed = files.list(file)?.unwrap_or_default();
        listed.iter().for_each(|cpu| cpus.insert(cpu));
    }
    Ok(cpus)
}

/// The package of a CPU. Virtual machines may report -1.
fn package(files: Files<'_>, cpu: usize) -> Result<usize, TopologyError> {
    let file = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
    match files.text(&file)?.as_deref() {
        None | Some("-1") => Ok(0),
        Some(text) => text.parse().map_err(|_| files.malformed(&file, text)),
    }
}

fn control(files: Files<'_>) -> Result<Control, TopologyError> {
    let text = files.text("sys/devices/system/cpu/smt/control")?;
    Ok(match text.as_deref() {
        None | Some("notsupported" | "notimplemented") => Control::None,
        Some("off") => Control::Off,
        Some("forceoff") => Control::ForcedOff,
        // `on`, or the largest number of siblings per core.
        Some(_) => Control::On,
    })
}
