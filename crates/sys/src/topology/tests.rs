//! Described machines, and invalid descriptions.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::Path;

use super::described::Described;
use super::{CacheKind, Smt, Topology, TopologyError, read_cores};
use crate::cpu::{self, CpuSet};

fn described(text: &str) -> Topology {
    Described::parse(text).expect(text).topology().expect(text)
}

/// The cores of a machine: `0+2 1+3`.
fn cores(machine: &Topology) -> String {
    let core = |core| {
        let cpus: Vec<String> = machine.core(core).iter().map(|cpu| cpu.to_string()).collect();
        cpus.join("+")
    };
    (0..machine.cores()).map(core).collect::<Vec<_>>().join(" ")
}

fn each<T: ToString>(machine: &Topology, of: impl Fn(&super::Cpu) -> T) -> String {
    machine.cpus().iter().map(|cpu| of(cpu).to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn siblings_are_found_however_cpus_are_numbered() {
    for (text, expected) in [
        ("1x2x1", "0 1"),
        ("1x2x2", "0+2 1+3"),
        ("1x2x2 order=pct", "0+1 2+3"),
        ("2x2x2", "0+4 1+5 2+6 3+7"),
        ("2x2x2 order=tcp", "0+4 1+5 2+6 3+7"),
        ("2x1x4 order=pct", "0+1+2+3 4+5+6+7"),
        ("1x2x2 ids=1,3,8-9", "1+8 3+9"),
        ("1x2x2+2x1e order=pct", "0+1 2+3 4 5"),
        ("1x2x2 without=new-names", "0+2 1+3"),
    ] {
        assert_eq!(cores(&described(text)), expected, "{text}");
    }
}

#[test]
fn cores_alone_are_the_same() {
    let Ok(machine) = Topology::read() else {
        return println!("skipped: sysfs does not describe this machine");
    };
    let cores: Vec<_> = (0..machine.cores()).map(|core| machine.core(core)).collect();
    assert_eq!(read_cores().unwrap(), cores);
}

#[test]
fn packages_and_nodes_are_those_of_the_kernel() {
    let machine = described("2x2x2 nodes=4 node-ids=0-1,8-10");
    assert_eq!(each(&machine, |cpu| cpu.package), "0 0 1 1 0 0 1 1");
    assert_eq!(each(&machine, |cpu| cpu.node), "0 1 8 9 0 1 8 9");
    assert_eq!(each(&machine, |cpu| cpu.thread), "0 0 0 0 1 1 1 1");
    let nodes: Vec<String> =
        machine.nodes().iter().map(|node| format!("{}:{}", node.id, node.cpus)).collect();
    assert_eq!(nodes, ["0:0,4", "1:1,5", "8:2,6", "9:3,7", "10:"]);
    let alternating = described("2x2x1 order=tcp");
    assert_eq!(each(&alternating, |cpu| cpu.package), "0 1 0 1");
    let one = described("2x2x1 without=nodes");
    assert_eq!((one.nodes().len(), one.nodes()[0].cpus.len()), (1, 4));
    assert_eq!(each(&described("2x1x1 without=packages"), |cpu| cpu.package), "0 0");
}

#[test]
fn capacities_are_said_or_ranked() {
    assert_eq!(each(&described("1x1x2+1x1e order=pct"), |cpu| cpu.capacity), "1024 1024 512");
    assert_eq!(each(&described("1x1x1@1024+1x1@446"), |cpu| cpu.capacity), "1024 446");
}

#[test]
fn caches_are_listed_once_with_the_cpus_that_share_them() {
    let machine = described("1x4x2 l3=2 allowed=0");
    let of = |level, kind| -> Vec<String> {
        let caches = machine.caches().iter();
        let caches = caches.filter(|cache| (cache.level, cache.kind) == (level, kind));
        caches.map(|cache| format!("{} {}", cache.cpus, cache.size.unwrap())).collect()
    };
    assert_eq!(of(3, CacheKind::Unified), ["0-1,4-5 16777216", "2-3,6-7 16777216"]);
    assert_eq!(
        of(1, CacheKind::Instruction),
        ["0,4", "1,5", "2,6", "3,7"].map(|sharers| format!("{sharers} 32768"))
    );
    assert_eq!(machine.caches().len(), 4 + 4 + 4 + 2);
    assert!(machine.caches().is_sorted_by_key(|cache| (
        cache.level,
        cache.cpus.iter().next(),
        cache.kind
    )));
    assert!(described("1x2x1 without=caches").caches().is_empty());
    let mut unknown = Described::parse("1x1x1 without=sizes").unwrap();
    unknown.set("/sys/devices/system/cpu/cpu0/cache/index3/size", "0K\n");
    assert!(unknown.topology().unwrap().caches().iter().all(|cache| cache.size.is_none()));
}

#[test]
fn an_offline_cpu_is_no_sibling() {
    let machine = described("1x3x2 offline=1,3");
    assert_eq!(cores(&machine), "0 2+5 4");
    assert_eq!(machine.offline().to_string(), "1,3");
    assert_eq!(each(&machine, |cpu| cpu.thread), "0 0 0 1");
    assert_eq!((machine.cpu(1), machine.siblings(1).len()), (None, 0));
    assert_eq!(described("1x2x2 smt=off").offline().to_string(), "2-3");
}

/// Containers may show the host's lists although fewer CPUs are online for them (LXCFS).
#[test]
fn cpus_that_are_listed_but_not_online_are_left_out() {
    let mut description = Described::parse("1x2x2").unwrap();
    description.set("/sys/devices/system/cpu/online", "1-3\n");
    let machine = description.topology().unwrap();
    assert_eq!(cores(&machine), "1+3 2");
    assert_eq!(machine.offline().to_string(), "0");
    let largest = machine.caches().last().unwrap();
    assert_eq!((largest.level, largest.cpus.to_string()), (3, "1-3".into()));
}

#[test]
fn siblings_are_usable_excluded_off_or_absent() {
    for (text, expected) in [
        ("1x2x2", Smt::Usable),
        ("1x2x2 allowed=1,3", Smt::Usable),
        ("1x2x2 allowed=0-1", Smt::Excluded),
        ("1x2x2 allowed=0,3", Smt::Excluded),
        ("1x2x2 smt=off", Smt::Off),
        ("1x2x2 offline=2-3", Smt::Offline),
        ("1x2x2 offline=2-3 without=smt", Smt::Absent),
        ("1x2x1", Smt::Absent),
        ("1x4x1 offline=3", Smt::Absent),
    ] {
        let machine = described(text);
        assert_eq!(machine.smt(), expected, "{text}");
        assert_eq!(machine.has_siblings(), expected == Smt::Usable, "{text}");
    }
}

/// Writing `on` does nothing if the control is on already, and is refused if it is forced off.
#[test]
fn siblings_that_are_off_have_the_remedy_that_helps() {
    for (control, expected, remedy) in [
        ("on\n", Smt::Offline, "write 1 to /sys/devices/system/cpu/cpuN/online"),
        ("2\n", Smt::Offline, "write 1 to /sys/devices/system/cpu/cpuN/online"),
        ("off\n", Smt::Off, "write 'on' to /sys/devices/system/cpu/smt/control"),
        ("forceoff\n", Smt::ForcedOff, "boot without nosmt=force"),
        ("notimplemented\n", Smt::Absent, "has none"),
    ] {
        let mut description = Described::parse("1x2x2 offline=2-3").unwrap();
        description.set("/sys/devices/system/cpu/smt/control", control);
        let smt = description.topology().unwrap().smt();
        assert_eq!(smt, expected, "{control}");
        assert!(smt.to_string().contains(remedy), "{control}: {smt}");
    }
}

#[test]
fn allowed_cpus_come_from_the_caller_the_description_or_nowhere() {
    let description = Described::parse("1x4x1 allowed=1-2,9 offline=2").unwrap();
    assert_eq!(description.topology().unwrap().allowed().to_string(), "1");
    assert_eq!(described("1x4x1 without=mask offline=2").allowed().to_string(), "0-1,3");
    let folder = Folder::new("allowed");
    description.write_to(&folder.0).unwrap();
    let asked = CpuSet::from_iter([0, 2, 3]);
    let machine = Topology::read_in(&folder.0, Some(&asked)).unwrap();
    assert_eq!(machine.allowed().to_string(), "0,3");
}

#[test]
fn a_written_description_reads_the_same() {
    let text = "2x3x2+2x1e order=pct nodes=4 offline=3 allowed=0-9";
    let folder = Folder::new("written");
    Described::parse(text).unwrap().write_to(&folder.0).unwrap();
    assert_eq!(Topology::read_in(&folder.0, None).unwrap(), described(text));
}

#[test]
fn a_kernel_for_one_cpu_says_nothing_of_it() {
    let mut description = Described::parse("1x1x1 without=nodes,caches,smt").unwrap();
    description.remove("/sys/devices/system/cpu/cpu0");
    let machine = description.topology().unwrap();
    assert_eq!((cores(&machine).as_str(), machine.smt()), ("0", Smt::Absent));
}

#[test]
fn a_description_that_is_wrong_is_refused_with_the_file() {
    let cpu = "/sys/devices/system/cpu";
    for (file, text, wanted) in [
        ("online", Some("0-99999999999\n"), "cpu/online has \"0-99999999999\""),
        ("online", Some("0-3\n\n"), "\"0-3\\n\""),
        ("online", Some("\n"), "none of the allowed CPUs"),
        ("online", None, "mount sysfs"),
        ("present", None, "cpu/present: "),
        ("cpu1/topology/core_cpus_list", Some("a lot"), "\"a lot\""),
        ("cpu1/topology/core_cpus_list", Some("1\n"), "core_cpus_list contradicts"),
        ("cpu1/topology/core_cpus_list", Some("3\n"), "core_cpus_list contradicts"),
        ("cpu1/topology/core_cpus_list", Some("0-3\n"), "core_cpus_list contradicts"),
        ("cpu3/topology/core_cpus_list", Some("2-3\n"), "core_cpus_list contradicts"),
        ("cpu1/topology", None, "cpu1/topology/core_cpus_list: "),
        ("cpu1/topology/physical_package_id", Some("-2\n"), "\"-2\""),
        ("cpu1/cpu_capacity", Some("much\n"), "\"much\""),
        ("cpu1/cache/index0/shared_cpu_list", Some("0\n"), "shared_cpu_list contradicts"),
        ("cpu2/cache/index0/shared_cpu_list", Some("2\n"), "shared_cpu_list contradicts"),
        ("cpu0/cache/index0/shared_cpu_list", Some("0\n"), "shared_cpu_list contradicts"),
        ("cpu3/cache/index3/shared_cpu_list", Some("1-3\n"), "shared_cpu_list contradicts"),
        ("cpu1/cache/index0/level", Some("L1\n"), "\"L1\""),
        ("cpu1/cache/index0/type", Some("Trace\n"), "\"Trace\""),
        ("cpu1/cache/index0/size", Some("32M\n"), "\"32M\""),
        ("cpu1/cache/index0/size", Some("18446744073709551615K\n"), "size"),
        ("../node/node0/cpulist", None, "node0/cpulist: "),
        ("../node/node1/cpulist", Some("0-3\n"), "node1/cpulist contradicts"),
    ] {
        let mut description = Described::parse("1x2x2 nodes=2").unwrap();
        let path = format!("{cpu}/{file}").replace("cpu/../", "");
        match text {
            Some(text) => description.set(&path, text),
            None => description.remove(&path),
        }
        let error = description.topology().expect_err(file).to_string();
        assert!(error.contains(wanted) && !error.contains('\n'), "{file}: {error}");
    }
}

#[test]
fn a_cpu_that_is_not_its_own_sibling_is_refused() {
    let mut description = Described::parse("1x2x1").unwrap();
    description.set("/sys/devices/system/cpu/cpu1/topology/core_cpus_list", "\n");
    let error = description.topology().unwrap_err().to_string();
    assert!(error.contains("cpu1/topology/core_cpus_list contradicts"), "{error}");
}

#[test]
fn cpus_of_no_node_are_in_node_0() {
    for online in ["1\n", "0-1\n"] {
        let mut description = Described::parse("2x1x1").unwrap();
        description.set("/sys/devices/system/node/online", online);
        description.set("/sys/devices/system/node/node0/cpulist", "\n");
        let machine = description.topology().unwrap();
        let nodes = machine.nodes().iter().map(|node| format!("{}:{}", node.id, node.cpus));
        assert_eq!(nodes.collect::<Vec<_>>().join(" "), "0:0 1:1", "{online}");
        assert_eq!(each(&machine, |cpu| cpu.node), "0 1");
    }
}

#[test]
fn a_zero_byte_behind_a_list_is_none_of_it() {
    let mut description = Described::parse("1x2x1").unwrap();
    description.set("/sys/devices/system/cpu/online", "0-1\n\0");
    assert_eq!(description.topology().unwrap().cpus().len(), 2);
    description.set("/sys/devices/system/cpu/online", "0-1\0\n");
    assert!(description.topology().is_err());
}

#[test]
fn a_cache_that_the_kernel_does_not_know_is_left_out() {
    for (file, text) in
        [("", None), ("level", None), ("type", None), ("shared_cpu_list", Some("\n"))]
    {
        let mut description = Described::parse("1x1x1").unwrap();
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index0/{file}");
        match text {
            Some(text) => description.set(path, text),
            None => description.remove(path),
        }
        let machine = description.topology().unwrap();
        assert_eq!(machine.caches().len(), 3, "{file}");
        assert_eq!(machine.caches()[0].kind, CacheKind::Instruction, "{file}");
    }
}

/// CPU 3 goes offline while the description is read for the first time.
#[test]
fn a_description_that_changes_is_read_again() {
    let folder = Folder::new("changes");
    Described::parse("1x4x1").unwrap().write_to(&folder.0).unwrap();
    let reads = Cell::new(0);
    let goes = |path: &Path| {
        reads.set(reads.get() + usize::from(path.ends_with("cpu/online")));
        match path.ends_with("cpu/online") && reads.get() > 1 {
            true => Ok("0-2\n".into()),
            false if path.to_string_lossy().contains("cpu3/") => {
                Err(io::ErrorKind::NotFound.into())
            }
            false => fs::read_to_string(path),
        }
    };
    let machine = Topology::read_from(&folder.0, &goes, None).unwrap();
    assert_eq!((machine.cpus().len(), machine.offline().to_string()), (3, "3".into()));
    let flickers = |path: &Path| {
        reads.set(reads.get() + 1);
        match path.ends_with("cpu/online") {
            true => Ok(format!("{}\n", reads.get() % 1000)),
            false => fs::read_to_string(path),
        }
    };
    reads.set(0);
    let error = Topology::read_from(&folder.0, &flickers, None).unwrap_err();
    assert!(matches!(error, TopologyError::Changing), "{error}");
}

#[test]
fn files_that_would_not_end_are_refused() {
    let folder = Folder::new("endless");
    Described::parse("1x2x1").unwrap().write_to(&folder.0).unwrap();
    let online = folder.0.join("sys/devices/system/cpu/online");
    let refused = || Topology::read_in(&folder.0, None).unwrap_err().to_string();
    fs::remove_file(&online).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &online).unwrap();
    assert!(refused().contains("longer than any of sysfs"), "{}", refused());
    fs::remove_file(&online).unwrap();
    fs::create_dir(&online).unwrap();
    assert!(refused().contains("cannot read"), "{}", refused());
    let error = Topology::read_in(Path::new("/proc/version"), None).unwrap_err().to_string();
    assert!(error.contains("/proc/version/sys/devices/system/cpu/online"), "{error}");
}

#[test]
fn this_machine_is_read() {
    let machine = match Topology::read() {
        Ok(machine) => machine,
        Err(error) => return println!("skipped: {error}"),
    };
    assert_eq!(machine.allowed().difference(&cpu::allowed().unwrap()), CpuSet::new());
    assert!(machine.cpu(cpu::current()).is_some());
    assert_eq!(
        machine.cpus().len(),
        (0..machine.cores()).map(|core| machine.core(core).len()).sum()
    );
    for (count, cpu) in machine.cpus().iter().enumerate() {
        assert_eq!(machine.siblings(cpu.id).iter().nth(cpu.thread), Some(cpu.id), "{count}");
    }
}

#[test]
fn words_that_describe_no_machine_are_named() {
    for (text, word) in [
        ("", "\"\""),
        ("2x4", "\"2x4\""),
        ("0x4x2", "\"0x4x2\""),
        ("1x4x2+", "\"1x4x2+\""),
        ("2x1024x2", "\"2x1024x2\""),
        ("1x1x1 order=pcc", "order=pcc"),
        ("1x1x1 nodes=2", "nodes=2"),
        ("1x2x1 ids=0", "ids=0"),
        ("2x1x1 node-ids=0", "node-ids=0"),
        ("1x1x1 without=all", "without=all"),
        ("1x1x1 smt", "\"smt\""),
    ] {
        let error = Described::parse(text).unwrap_err().to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
}

/// A folder that is removed when the test ends.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("daiko-topology-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("a new folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("it is still there");
    }
}
