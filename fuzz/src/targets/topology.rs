//! Lists of CPUs, and descriptions of machines: for any contents of the files, siblings agree with
//! each other, and a refusal is one line.

use std::path::Path;

use daiko_cli::topology::drawing;
use daiko_sys::{
    cpu::CpuSet,
    topology::{Topology, described::Described},
};

/// The input is a machine in words; then changed files, each followed by its new text, or by an
/// empty text to remove it. Parts are separated by zero bytes.
pub(super) fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split('\0');
    let mut machine = match Described::parse(parts.next().unwrap_or_default()) {
        Ok(machine) => machine,
        Err(error) => return assert_line(&error),
    };
    while let Some(file) = parts.next() {
        let file = Path::new("/sys/devices/system").join(file);
        match parts.next() {
            Some(text) if !text.is_empty() => {
                list(text);
                machine.set(file, text);
            }
            _ => machine.remove(file),
        }
    }
    match machine.topology() {
        Ok(machine) => check(&machine),
        Err(error) => assert_line(&error),
    }
}

fn assert_line(error: &impl ToString) {
    let line = error.to_string();
    assert!(!line.is_empty() && !line.contains(char::is_control), "{line:?}");
}

fn list(text: &str) {
    match text.parse::<CpuSet>() {
        Ok(set) => {
            assert!(set.len() <= CpuSet::LIMIT);
            assert_eq!(set.to_string().parse(), Ok(set));
        }
        Err(error) => assert_line(&error),
    }
}

fn check(machine: &Topology) {
    let online: CpuSet = machine.cpus().iter().map(|cpu| cpu.id).collect();
    assert!(machine.cpus().is_sorted_by(|one, other| one.id < other.id));
    assert!(!machine.allowed().is_empty() && machine.allowed().difference(&online).is_empty());
    assert!(machine.offline().intersection(&online).is_empty());
    for cpu in machine.cpus() {
        assert_eq!(machine.siblings(cpu.id).iter().nth(cpu.thread), Some(cpu.id));
        let homes = machine.nodes().iter().filter(|node| node.cpus.contains(cpu.id));
        assert!(homes.map(|node| node.id).eq([cpu.node]));
    }
    let cores = (0..machine.cores()).map(|core| machine.core(core));
    assert_eq!(cores.clone().map(|core| core.len()).sum::<usize>(), online.len());
    let pairs = cores.filter(|core| core.intersection(machine.allowed()).len() > 1);
    assert_eq!(machine.has_siblings(), pairs.count() > 0);
    for cache in machine.caches() {
        assert!(!cache.cpus.is_empty() && cache.cpus.difference(&online).is_empty());
    }
    let drawn = drawing::of(machine);
    assert!(drawn.lines().all(|line| !line.contains(char::is_control)), "{drawn:?}");
}
