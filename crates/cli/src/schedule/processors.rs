//! The CPUs of this machine in the scheduler's format.

use daiko_scx::Processor;
use daiko_sys::topology::Topology;

/// The CPUs of a machine, in order of their numbers. CPUs that share the largest cache are a
/// domain; CPUs without one, such as those offline, are in the first.
pub(super) fn of(topology: &Topology) -> Vec<Processor> {
    let cpus = topology.cpus();
    let known = cpus.iter().map(|cpu| cpu.id + 1).max().unwrap_or_default();
    let level = topology.caches().iter().map(|cache| cache.level).max();
    let caches: Vec<_> =
        topology.caches().iter().filter(|cache| Some(cache.level) == level).collect();
    let mut all = vec![Processor::default(); known];
    for cpu in cpus {
        let domain = caches.iter().position(|cache| cache.cpus.contains(cpu.id));
        let siblings = topology.siblings(cpu.id);
        let others = siblings.iter().filter(|other| *other != cpu.id && *other < 128);
        all[cpu.id] = Processor {
            siblings: others.fold(0, |set, other| set | 1 << other),
            domain: domain.unwrap_or_default() as u32,
        };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_name_each_other_and_share_a_domain() {
        let Ok(topology) = Topology::read() else {
            println!("skipped: siblings_name_each_other_and_share_a_domain: no topology here");
            return;
        };
        let all = of(&topology);
        for (cpu, processor) in all.iter().enumerate() {
            assert!((processor.domain as usize) < all.len());
            assert_eq!(processor.siblings >> cpu & 1, 0, "CPU {cpu} is no sibling of its own");
            for (other, sibling) in all.iter().enumerate() {
                if processor.siblings >> other & 1 == 1 {
                    assert_eq!(sibling.siblings >> cpu & 1, 1);
                    assert_eq!(sibling.domain, processor.domain);
                }
            }
        }
    }
}
