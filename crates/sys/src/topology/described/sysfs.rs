//! The kernel's files for a machine: lists, and the masks that older readers (and hwloc) use.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Counter, DescribedMachine, Rank, Without};
use crate::cpu::CpuSet;

/// Number of efficient cores that share an L2.
const CLUSTER: usize = 4;

/// A hardware thread that is online.
#[derive(Debug, Clone, Copy)]
struct Thread {
    id: usize,
    package: usize,
    /// Number within the machine.
    core: usize,
    /// Number within its package.
    core_of_package: usize,
    /// The first core of its cluster, within the machine.
    cluster: usize,
    thread: usize,
    rank: Rank,
}

struct Writer<'a> {
    machine: &'a DescribedMachine,
    /// Sorted by `id`, ascending.
    online: Vec<Thread>,
    files: BTreeMap<PathBuf, String>,
}

pub(super) fn files(machine: &DescribedMachine) -> BTreeMap<PathBuf, String> {
    let all = threads(machine);
    let off = |thread: &&Thread| {
        machine.offline.contains(thread.id) || (!machine.smt && thread.thread > 0)
    };
    let (offline, online): (Vec<&Thread>, Vec<&Thread>) = all.iter().partition(off);
    let online = online.into_iter().copied().collect();
    let mut writer = Writer { machine, online, files: BTreeMap::new() };
    writer.cpus(&all, &offline.iter().map(|thread| thread.id).collect());
    for thread in writer.online.clone() {
        writer.topology(thread);
        writer.caches(thread);
        writer.capacity(thread);
    }
    writer.nodes();
    writer.ranks();
    writer.masks();
    writer.files
}

/// All threads of a machine, in the order of their numbers.
fn threads(machine: &DescribedMachine) -> Vec<Thread> {
    let mut threads = Vec::new();
    for package in 0..machine.packages {
        let mut first = 0;
        for kind in &machine.kinds {
            for core in first..first + kind.cores {
                threads.extend((0..kind.threads).map(|thread| Thread {
                    id: 0,
                    package,
                    core: package * machine.cores() + core,
                    core_of_package: core,
                    cluster: package * machine.cores() + first + (core - first) / CLUSTER * CLUSTER,
                    thread,
                    rank: kind.rank,
                }));
            }
            first += kind.cores;
        }
    }
    number(machine, &mut threads);
    threads
}

fn number(machine: &DescribedMachine, threads: &mut [Thread]) {
    threads.sort_by_key(|thread| {
        machine.order.0.map(|counter| match counter {
            Counter::Package => thread.package,
            Counter::Core => thread.core_of_package,
            Counter::Thread => thread.thread,
        })
    });
    let ids = machine.ids.clone().unwrap_or((0..threads.len()).collect());
    threads.iter_mut().zip(ids.iter()).for_each(|(thread, id)| thread.id = id);
}

impl Writer<'_> {
    fn put(&mut self, path: String, text: impl ToString) {
        self.files.insert(path.into(), text.to_string() + "\n");
    }

    /// Writes a set under both of its names.
    fn set(&mut self, mask: String, list: String, cpus: &CpuSet) {
        self.put(mask, hexadecimal(cpus));
        self.put(list, cpus);
    }

    fn online_like(&self, like: impl Fn(&Thread) -> bool) -> CpuSet {
        self.online.iter().filter(|&thread| like(thread)).map(|thread| thread.id).collect()
    }

    fn cpus(&mut self, all: &[Thread], offline: &CpuSet) {
        let folder = "/sys/devices/system/cpu";
        let present: CpuSet = all.iter().map(|thread| thread.id).collect();
        let online = self.online_like(|_| true);
        self.put(format!("{folder}/possible"), &present);
        self.put(format!("{folder}/present"), &present);
        self.put(format!("{folder}/online"), &online);
        self.put(format!("{folder}/offline"), offline);
        for cpu in present.iter() {
            self.put(format!("{folder}/cpu{cpu}/online"), u8::from(online.contains(cpu)));
        }
        if self.machine.says(Without::Smt) {
            let siblings = self.machine.kinds.iter().any(|kind| kind.threads > 1);
            let control = match (siblings, self.machine.smt) {
                (false, _) => "notsupported",
                (true, true) => "on",
                (true, false) => "off",
            };
            self.put(format!("{folder}/smt/control"), control);
            self.put(format!("{folder}/smt/active"), u8::from(control == "on"));
        }
    }

    fn topology(&mut self, thread: Thread) {
        let folder = format!("/sys/devices/system/cpu/cpu{}/topology", thread.id);
        let core = self.online_like(|other| other.core == thread.core);
        let package = self.online_like(|other| other.package == thread.package);
        let file = |name: &str| format!("{folder}/{name}");
        self.set(file("thread_siblings"), file("thread_siblings_list"), &core);
        self.set(file("core_siblings"), file("core_siblings_list"), &package);
        if self.machine.says(Without::NewNames) {
            self.set(file("core_cpus"), file("core_cpus_list"), &core);
            self.set(file("package_cpus"), file("package_cpus_list"), &package);
        }
        self.put(file("core_id"), thread.core_of_package);
        match self.machine.says(Without::Packages) {
            true => self.put(file("physical_package_id"), thread.package),
            false => self.put(file("physical_package_id"), -1),
        }
    }

    fn caches(&mut self, thread: Thread) {
        if !self.machine.says(Without::Caches) {
            return;
        }
        let efficient = thread.rank == Rank::Efficient;
        let core = self.online_like(|other| other.core == thread.core);
        let l2 = self.online_like(|other| match efficient {
            true => other.rank == Rank::Efficient && other.cluster == thread.cluster,
            false => other.core == thread.core,
        });
        let part = |thread: &Thread| (thread.package, thread.core_of_package / self.machine.l3);
        let l3 = self.online_like(|other| part(other) == part(&thread));
        let levels = [
            (1, "Data", if efficient { 32 } else { 48 }, &core),
            (1, "Instruction", if efficient { 64 } else { 32 }, &core),
            (2, "Unified", if efficient { 2048 } else { 1024 }, &l2),
            (3, "Unified", 16_384, &l3),
        ];
        for (index, (level, kind, kib, cpus)) in levels.into_iter().enumerate() {
            let folder = format!("/sys/devices/system/cpu/cpu{}/cache/index{index}", thread.id);
            self.put(format!("{folder}/level"), level);
            self.put(format!("{folder}/type"), kind);
            if self.machine.says(Without::Sizes) {
                self.put(format!("{folder}/size"), format!("{kib}K"));
            }
            self.set(format!("{folder}/shared_cpu_map"), format!("{folder}/shared_cpu_list"), cpus);
        }
    }

    fn capacity(&mut self, thread: Thread) {
        if let Rank::Capacity(capacity) = thread.rank {
            self.put(format!("/sys/devices/system/cpu/cpu{}/cpu_capacity", thread.id), capacity);
        }
    }

    fn nodes(&mut self) {
        if !self.machine.says(Without::Nodes) {
            return;
        }
        let ids = self.machine.node_ids.clone().unwrap_or((0..self.machine.nodes).collect());
        self.put("/sys/devices/system/node/online".into(), &ids);
        let (nodes, cores) = (self.machine.nodes, self.machine.packages * self.machine.cores());
        for (index, id) in ids.iter().enumerate() {
            let cpus = self.online_like(|thread| thread.core * nodes / cores == index);
            let folder = format!("/sys/devices/system/node/node{id}");
            self.set(format!("{folder}/cpumap"), format!("{folder}/cpulist"), &cpus);
            let distances = ids.iter().map(|other| if other == id { "10" } else { "20" });
            self.put(format!("{folder}/distance"), distances.collect::<Vec<_>>().join(" "));
            self.put(format!("{folder}/meminfo"), format!("Node {id} MemTotal:  1048576 kB"));
        }
    }

    /// Writes one event source per rank, as a hybrid x86 has.
    fn ranks(&mut self) {
        let efficient = self.online_like(|thread| thread.rank == Rank::Efficient);
        if !efficient.is_empty() {
            let fast = self.online_like(|thread| thread.rank != Rank::Efficient);
            self.put("/sys/devices/cpu_core/cpus".into(), fast);
            self.put("/sys/devices/cpu_atom/cpus".into(), efficient);
        }
    }

    /// Writes the affinity mask of a process and the cpuset of its control group.
    fn masks(&mut self) {
        if !self.machine.says(Without::Mask) {
            return;
        }
        let online = self.online_like(|_| true);
        let allowed =
            self.machine.allowed.as_ref().map_or(online.clone(), |set| set.intersection(&online));
        self.put(
            "/proc/self/status".into(),
            format!("Name:\tdescribed\nCpus_allowed_list:\t{allowed}"),
        );
        self.put("/proc/mounts".into(), "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0");
        self.put("/proc/self/cpuset".into(), "/");
        self.put("/sys/fs/cgroup/cgroup.controllers".into(), "cpuset");
        self.put("/sys/fs/cgroup/cpuset.cpus.effective".into(), allowed);
    }
}

/// Formats a mask in the kernel's way: words of 32 bits, the highest first.
fn hexadecimal(cpus: &CpuSet) -> String {
    let words = cpus.iter().max().map_or(1, |last| last / 32 + 1);
    let bit = |cpu| u32::from(cpus.contains(cpu)) << (cpu % 32);
    let word = |word| (word * 32..word * 32 + 32).map(bit).sum::<u32>();
    (0..words).rev().map(|index| format!("{:08x}", word(index))).collect::<Vec<_>>().join(",")
}
