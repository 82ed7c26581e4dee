//! Compares this crate's topology with hwloc's: for described machines, this machine, and recorded
//! machines.
//!
//! If the kernel writes both a mask and a list, hwloc reads the mask. So the two readers share no
//! file of a description except numbers and sizes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use daiko_sys::cpu::CpuSet;
use daiko_sys::topology::described::Described;
use daiko_sys::topology::{CacheKind, Topology};
use roxmltree::{Document, Node, ParsingOptions};

/// The parts of a topology that hwloc knows as well, with sets as text.
#[derive(Default)]
struct Facts {
    /// The core and the package of each CPU (`None` for all if the kernel does not know it).
    cpus: BTreeMap<usize, (String, Option<usize>)>,
    /// Level, kind, bytes and CPUs, in order.
    caches: Vec<(u32, CacheKind, u64, String)>,
    /// The CPUs of each node; `None` for a node with memory only: hwloc invents its locality.
    nodes: BTreeMap<usize, Option<String>>,
    allowed: String,
}

impl Facts {
    fn of(machine: &Topology) -> Self {
        let caches = machine.caches().iter();
        let mut caches: Vec<_> = caches
            .map(|cache| (cache.level, cache.kind, cache.size.unwrap_or(0), cache.cpus.to_string()))
            .collect();
        caches.sort();
        let cpus = machine.cpus().iter();
        let nodes = machine.nodes().iter();
        Self {
            cpus: cpus
                .map(|cpu| (cpu.id, (machine.core(cpu.core).to_string(), Some(cpu.package))))
                .collect(),
            caches,
            nodes: nodes
                .map(|node| (node.id, Some(node.cpus.to_string()).filter(|list| !list.is_empty())))
                .collect(),
            allowed: machine.allowed().to_string(),
        }
    }

    /// Drops packages with number -1 and memory without a CPU from the comparison.
    fn forget_parts_unknown_to(&mut self, other: &Self) {
        for (cpu, (_, package)) in &mut self.cpus {
            *package = package.filter(|_| other.cpus.get(cpu).is_some_and(|(_, it)| it.is_some()));
        }
        for (id, cpus) in &mut self.nodes {
            *cpus = cpus.take().filter(|_| other.nodes.get(id).is_some_and(Option::is_some));
        }
    }

    /// Drops parts that recordings lack. They have control groups but no mask of a process. Old
    /// recordings have masks of caches but no lists, and CPUs of offline nodes, to which only this
    /// crate gives a place.
    fn forget_parts_that_recordings_lack(&mut self, theirs: &mut Self) {
        theirs.allowed.clone_from(&self.allowed);
        self.nodes.retain(|id, _| theirs.nodes.contains_key(id));
        if self.caches.is_empty() {
            theirs.caches.clear();
        }
    }
}

/// The output of `lstopo` for the source that `variable` selects; `None` if it is not installed.
fn hwloc(variable: &str, value: &Path) -> Option<Facts> {
    let mut lstopo = Command::new("lstopo-no-graphics");
    lstopo.args(["--of", "xml", "--no-io", "--disallowed"]).env(variable, value);
    // Restricts hwloc to the tree or the files of this machine, without asking the processor.
    let component = if variable == "HWLOC_SYNTHETIC" { "synthetic" } else { "linux,stop" };
    lstopo.env("HWLOC_COMPONENTS", component).env("HWLOC_HIDE_ERRORS", "2");
    let output = match lstopo.output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: lstopo-no-graphics does not run ({error}): install hwloc");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Some(facts(&Document::parse_with_options(&text, options).expect("XML")))
}

fn facts(document: &Document<'_>) -> Facts {
    let mut facts = Facts::default();
    let objects = || document.descendants().filter(|node| node.has_tag_name("object"));
    let machine = objects().next().expect("a machine");
    for object in objects() {
        let kind = object.attribute("type").expect("a type");
        let own = |name: &str| object.attribute(name);
        match kind {
            "PU" => {
                let core =
                    above(object, "Core").map_or(set(object, "cpuset"), |it| set(it, "cpuset"));
                let package = above(object, "Package").and_then(|package| number(package));
                facts.cpus.insert(number(object).expect("a CPU"), (core.to_string(), package));
            }
            "NUMANode" => {
                let id = number(object).expect("a node");
                facts.nodes.insert(id, Some(set(object, "cpuset").to_string()));
            }
            _ if kind.ends_with("Cache") && kind.starts_with('L') => {
                let level = own("depth").expect("a level").parse().expect("a number");
                let bytes = own("cache_size").expect("a size").parse().expect("a number");
                let holds = match own("cache_type").expect("a type") {
                    "0" => CacheKind::Unified,
                    "1" => CacheKind::Data,
                    "2" => CacheKind::Instruction,
                    other => panic!("a cache of type {other}"),
                };
                facts.caches.push((level, holds, bytes, set(object, "cpuset").to_string()));
            }
            _ => {}
        }
    }
    facts.caches.sort();
    facts.allowed = set(machine, "allowed_cpuset").to_string();
    facts
}

fn above<'a, 'b>(object: Node<'a, 'b>, kind: &str) -> Option<Node<'a, 'b>> {
    object.ancestors().find(|node| node.attribute("type") == Some(kind))
}

fn number(object: Node<'_, '_>) -> Option<usize> {
    let index = object.attribute("os_index")?.parse::<u32>().expect("a number");
    // The kernel reports -1.
    (index != u32::MAX).then_some(index as usize)
}

/// Parses words of 32 bits, the highest first: `0x3,0x00000001`.
fn set(object: Node<'_, '_>, name: &str) -> CpuSet {
    let words = object.attribute(name).expect(name).rsplit(',');
    let bits =
        words.map(|word| u32::from_str_radix(word.trim_start_matches("0x"), 16).unwrap_or(0));
    let ids = |(place, bits): (usize, u32)| {
        (0..32).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| place * 32 + bit)
    };
    bits.enumerate().flat_map(ids).collect()
}

#[track_caller]
fn assert_agreed(source: &str, mut ours: Facts, mut theirs: Facts) {
    ours.forget_parts_unknown_to(&theirs);
    theirs.forget_parts_unknown_to(&ours);
    assert_eq!(ours.allowed, theirs.allowed, "{source}");
    assert_eq!(ours.nodes, theirs.nodes, "{source}");
    assert_eq!(ours.cpus, theirs.cpus, "{source}");
    assert_eq!(ours.caches, theirs.caches, "{source}");
}

/// Ordinary machines, followed by unusual machines.
const MACHINES: [&str; 30] = [
    "1x1x1",
    "1x2x1",
    "1x4x2",
    "2x4x2",
    "2x4x2 order=pct",
    "2x4x2 order=tcp",
    "2x4x2 order=ctp",
    "2x8x2 nodes=4 l3=4",
    "2x64x2 nodes=8 l3=8",
    "4x6x4 order=pct",
    "8x4x1 nodes=2",
    "2x3x2 nodes=1",
    "1x5x2 nodes=3 l3=2",
    "1x6x2+8x1e order=pct",
    "1x2x2+4x1e+2x1e order=pct offline=1,5",
    "1x4x1@1024+4x1@446",
    "2x4x2 offline=3,9",
    "2x4x2 offline=0,8",
    "2x2x2 offline=2-3,6-7",
    "2x4x2 smt=off",
    "1x8x4 offline=9-31",
    "2x4x2 allowed=0-7",
    "2x4x2 allowed=1,8,12-13",
    "2x4x2 allowed=4-7,12-15 offline=5",
    "1x4x2 ids=0-3,8-11",
    "2x2x2 ids=1,3,33,64,65,66,200,1000",
    "2x2x2 node-ids=0,8,250-255",
    "2x4x2 without=packages",
    "2x4x2 without=caches,nodes,smt,mask",
    "2x4x2 without=new-names,sizes",
];

#[test]
fn described_machines_are_read_as_hwloc_reads_them() {
    for text in MACHINES {
        let folder = tempfile::tempdir().expect("a folder");
        let description = Described::parse(text).expect(text);
        description.write_to(folder.path()).expect("files");
        let Some(theirs) = hwloc("HWLOC_FSROOT", folder.path()) else { return };
        let ours = Topology::read_in(folder.path(), None).expect(text);
        assert_eq!(ours, description.topology().expect(text), "{text}");
        assert_agreed(text, Facts::of(&ours), theirs);
    }
}

/// The same machines in hwloc's own words: the describing code here agrees as well.
#[test]
fn descriptions_are_those_of_hwlocs_own_machines() {
    let core = "(size=1048576) l1d:1(size=49152) l1i:1(size=32768) core:1";
    for (ours, above, cores, threads) in [
        ("1x4x2 order=pct", "pack:1 numa:1", 4, "pu:2"),
        ("2x4x1", "pack:2 numa:1", 4, "pu:1"),
        ("2x4x4 order=pct l3=2 nodes=4", "pack:2 numa:2", 2, "pu:4"),
        ("1x3x2", "pack:1 numa:1", 3, "pu:2(indexes=0,3,1,4,2,5)"),
        ("2x2x2 order=tcp", "pack:2 numa:1", 2, "pu:2(indexes=0,4,2,6,1,5,3,7)"),
    ] {
        let theirs = format!("{above} l3:1(size=16777216) l2:{cores}{core} {threads}");
        let Some(synthetic) = hwloc("HWLOC_SYNTHETIC", Path::new(&theirs)) else { return };
        let described = Described::parse(ours).expect(ours).topology().expect(ours);
        assert_agreed(&theirs, Facts::of(&described), synthetic);
    }
}

#[test]
fn this_machine_is_read_as_hwloc_reads_it() {
    let ours = match Topology::read() {
        Ok(machine) => machine,
        Err(error) => return println!("skipped: {error}"),
    };
    // hwloc applies only the control group's part of the mask.
    let Some(mut theirs) = hwloc("HWLOC_THISSYSTEM", Path::new("1")) else { return };
    let cpuset: CpuSet = theirs.allowed.parse().expect("a list");
    assert_eq!(ours.allowed().intersection(&cpuset), *ours.allowed());
    theirs.allowed = ours.allowed().to_string();
    assert_agreed("this machine", Facts::of(&ours), theirs);
}

/// Recorded trees of hwloc that cannot agree.
const APART: [(&str, &str); 2] = [
    ("40intel64-4n10c+pci-conflicts", "masks were changed so that they contradict the lists"),
    (
        "64amd64-4s2n4ca2co",
        "hwloc halves the modules of AMD's family 15h, which the kernel calls cores",
    ),
];

/// Compares trees of other machines, a folder each, such as those of hwloc's sources
/// (`tests/hwloc/linux/*.tar.bz2`), unpacked.
#[test]
fn recorded_machines_are_read_as_hwloc_reads_them() {
    let Some(folder) = std::env::var_os("DAIKO_RECORDED_MACHINES") else {
        return println!("skipped: DAIKO_RECORDED_MACHINES names no folder of recorded trees");
    };
    let trees = std::fs::read_dir(folder).expect("a folder of trees");
    let mut trees: Vec<PathBuf> = trees.map(|entry| entry.expect("a tree").path()).collect();
    trees.sort();
    assert!(!trees.is_empty());
    for tree in trees {
        let name = tree.file_name().expect("a name").to_string_lossy().into_owned();
        let ours = match Topology::read_in(&tree, None) {
            Ok(machine) => machine,
            Err(error) => {
                println!("skipped: {name}: {error}");
                continue;
            }
        };
        if let Some((_, reason)) = APART.iter().find(|(apart, _)| *apart == name) {
            println!("skipped: {name}: {reason}");
            continue;
        }
        let Some(mut theirs) = hwloc("HWLOC_FSROOT", &tree) else { return };
        let mut ours = Facts::of(&ours);
        ours.forget_parts_that_recordings_lack(&mut theirs);
        assert_agreed(&name, ours, theirs);
        println!("agreed: {name}");
    }
}
